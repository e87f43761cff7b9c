package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// maxStreams is the maximum number of streaming responses, without inspector sessions.
const maxStreams = 256

const (
	eventsLimit    = 100              // events in an answer
	maxEventsLimit = 1000             // that a client may ask for
	takeTimeout    = 10 * time.Second // for a client to take a message
	keepAlive      = 15 * time.Second
)

// eventHandlers lists and streams events.
type eventHandlers struct {
	shared
	streams atomic.Int64 // open streaming responses
}

// List answers with events, or streams them when the client accepts text/event-stream.
func (s *eventHandlers) List(w http.ResponseWriter, r *http.Request) (any, error) {
	after, err := numberParam(r, "after", -1)
	if err != nil {
		return nil, err
	}
	limit, err := numberParam(r, "limit", eventsLimit)
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

// stream is Long for a streaming response. Its connection no longer counts towards the limit of connections: streams
// have a limit of their own. end releases the slot of the stream.
func (s *eventHandlers) stream(w http.ResponseWriter, r *http.Request) (ctx context.Context, end func(), err error) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return nil, nil, rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany, "the limit of %d streams is reached",
			maxStreams)
	}
	guard.Release(r)
	w.Header().Set("Connection", "close") // its slot is released
	ctx, cancel := s.Long(w, r)
	return ctx, func() { cancel(); s.streams.Add(-1) }, nil
}

// streamEvents sends events as they happen: the events after the given one, or after the last one that a reconnecting
// client received.
func (s *eventHandlers) streamEvents(w http.ResponseWriter, r *http.Request, after int64) error {
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
	s.sendEvents(ctx, out, after)
	return nil
}

func (s *eventHandlers) sendEvents(ctx context.Context, out *streamWriter, after int64) {
	tick, alive := time.NewTicker(pollInterval), time.NewTicker(keepAlive)
	defer tick.Stop()
	defer alive.Stop()
	for ctx.Err() == nil && out.err == nil {
		changed := s.Changed()
		list, err := s.Desired.Events(ctx, after, eventsLimit)
		if err != nil {
			return
		}
		for _, e := range list {
			after = e.ID
			text, _ := json.Marshal(e) // an event is text and numbers
			out.write(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, text))
		}
		out.flush()
		if len(list) > 0 { // more may follow
			continue
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-alive.C:
			out.write([]byte(": still here\n\n"))
		case <-ctx.Done():
		}
	}
}

// streamWriter writes a streaming response. It gives up on a client that reads nothing for too long.
type streamWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	dirty   bool
	err     error
}

func (s *streamWriter) write(b []byte) {
	if s.err == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(takeTimeout)) // not every writer can
		_, s.err = s.w.Write(b)
		s.dirty = true
	}
}

func (s *streamWriter) flush() {
	if s.err == nil && s.dirty {
		s.err, s.dirty = s.control.Flush(), false
	}
}
