package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

const (
	eventsLimit    = 100  // events in an answer
	maxEventsLimit = 1000 // that a client may ask for
	keepAlive      = 15 * time.Second
)

// events answers with what happened, or goes on telling it when the client accepts
// text/event-stream.
func (s *Server) events(w http.ResponseWriter, r *http.Request) (any, error) {
	after, err := number(r, "after", -1)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", eventsLimit)
	if err != nil {
		return nil, err
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		return nil, s.streamEvents(w, r, after)
	}
	list, err := s.Desired.Events(r.Context(), after, int(min(limit, maxEventsLimit)))
	if list == nil {
		list = []spec.Event{}
	}
	return list, err
}

// number returns the value of a parameter of the query that is a number from 0.
func number(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fieldError(spec.CodeInvalid, name, name+" must be a whole number from 0, not "+strconv.Quote(text))
	}
	return n, nil
}

// flag returns the value of a parameter of the query that is true or false, and true by
// being there.
func flag(r *http.Request, name string) (bool, error) {
	query := r.URL.Query()
	if text := query.Get(name); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return false, fieldError(spec.CodeInvalid, name, name+" must be true or false, not "+strconv.Quote(text))
		}
		return on, nil
	}
	return query.Has(name), nil
}

// streamEvents tells events as they happen: those after the given one, or after the one
// that a client that was cut off received last.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, after int64) error {
	if last, err := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		after = last
	}
	if after < 0 {
		newest, err := s.Desired.Events(r.Context(), -1, 1)
		if err != nil {
			return err
		}
		after = 0
		for _, e := range newest {
			after = e.ID
		}
	}
	ctx, end, err := s.stream(w, r)
	if err != nil {
		return err
	}
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &streamWriter{w: w, control: http.NewResponseController(w)}
	out.write([]byte(": events\n\n"))
	out.flush()
	s.tellEvents(ctx, out, after)
	return nil
}

func (s *Server) tellEvents(ctx context.Context, out *streamWriter, after int64) {
	tick, alive := time.NewTicker(lookAgain), time.NewTicker(keepAlive)
	defer tick.Stop()
	defer alive.Stop()
	for ctx.Err() == nil && out.err == nil {
		changed := s.Observed.Changed()
		list, err := s.Desired.Events(ctx, after, maxEventsLimit)
		if err != nil {
			return
		}
		for _, e := range list {
			after = e.ID
			text, _ := json.Marshal(e) // an event is text and numbers
			out.write(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, text))
		}
		out.flush()
		select {
		case <-changed:
		case <-tick.C:
		case <-alive.C:
			out.write([]byte(": still here\n\n"))
		case <-ctx.Done():
		}
	}
}

// streamWriter writes an answer that goes on. A client that takes nothing for too long
// is given up.
type streamWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	dirty   bool
	err     error
}

func (s *streamWriter) write(b []byte) {
	if s.err == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(streamTimeout)) // not every writer can
		_, s.err = s.w.Write(b)
		s.dirty = true
	}
}

func (s *streamWriter) flush() {
	if s.err == nil && s.dirty {
		s.err, s.dirty = s.control.Flush(), false
	}
}
