package api

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/api/rest"
)

const (
	streamTimeout = 10 * time.Second       // for a client to take one message
	pingInterval  = 30 * time.Second       // between signs of life
	closeTimeout  = 500 * time.Millisecond // for a client to say goodbye
	dropInterval  = 5 * time.Second        // between two messages about dropped records
)

// inspect shows the records that pass a connector from now on, over WebSocket or as
// lines of an answer that does not end. The session outlives restarts of the pipeline.
func (s *Server) inspect(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if _, _, err := s.connector(r.Context(), id); err != nil {
		return nil, err
	}
	wanted, err := selectionOf(r)
	if err != nil {
		return nil, err
	}
	feed, leave := s.inspector.join(id)
	if feed == nil {
		return nil, rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany, "there are %d inspector sessions already", maxSessions)
	}
	defer leave()
	session := &session{reader: feed.reader(), wanted: wanted, hub: &s.inspector}
	if isUpgrade(r) {
		s.inspectSocket(w, r, session)
		return nil, nil
	}
	s.inspectLines(w, r, session)
	return nil, nil
}

// session is one client that sees records.
type session struct {
	*reader
	wanted selection
	hub    *hub

	missed uint64    // records the client does not know to have missed
	told   time.Time // when it was told last
	shown  time.Time // when it saw the last record
}

// run sends records until ctx ends or sending fails. idle is called when there is
// nothing to send at the moment.
func (s *session) run(ctx context.Context, send func([]byte) error, idle func() error) error {
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for ctx.Err() == nil {
		frame, missed, wait := s.read()
		if wait == nil {
			s.missed += missed
			if err := s.show(&frame, send); err != nil {
				return err
			}
			continue
		}
		if err := idle(); err != nil {
			return err
		}
		select {
		case <-wait:
		case <-ping.C:
			if err := send(nil); err != nil {
				return err
			}
		case <-ctx.Done():
		}
	}
	return nil
}

// show sends a frame if the client wants to see it, after what it missed.
func (s *session) show(f *frame, send func([]byte) error) error {
	now := time.Now()
	if s.missed > 0 && now.Sub(s.told) >= dropInterval {
		if err := send([]byte(`{"dropped":` + strconv.FormatUint(s.missed, 10) + `}`)); err != nil {
			return err
		}
		s.hub.dropped.Add(s.missed)
		s.missed, s.told = 0, now
	}
	if !s.wanted.matches(f) || now.Sub(s.shown) < s.wanted.interval {
		return nil
	}
	s.shown = now
	return send(f.data)
}

// inspectLines sends one message per line.
func (s *Server) inspectLines(w http.ResponseWriter, r *http.Request, session *session) {
	ctx, cancel := s.stream(w, r)
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := &streamWriter{w: w, control: http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	out.dirty = true
	send := func(message []byte) error {
		if message != nil {
			out.write(message)
			out.write([]byte{'\n'})
		}
		return out.err
	}
	_ = session.run(ctx, send, func() error { // it ends when the client is gone
		out.flush()
		return out.err
	})
}

// inspectSocket sends one message per record.
func (s *Server) inspectSocket(w http.ResponseWriter, r *http.Request, session *session) {
	s.sockets.Add(1)
	defer s.sockets.Done()
	// The origin was checked before anything else.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"conduit"}})
	if err != nil {
		return // Accept answered
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithCancel(conn.CloseRead(context.Background()))
	defer cancel()
	end := make(chan struct{})
	defer close(end)
	go func() {
		select {
		case <-s.closing:
			cancel()
			time.AfterFunc(closeTimeout, func() { conn.CloseNow() })
		case <-end:
		}
	}()
	send := func(message []byte) error {
		ctx, cancel := context.WithTimeout(context.Background(), streamTimeout)
		defer cancel()
		if message == nil {
			return conn.Ping(ctx)
		}
		return conn.Write(ctx, websocket.MessageText, message)
	}
	if session.run(ctx, send, func() error { return nil }) == nil {
		conn.Close(websocket.StatusGoingAway, "the agent is shutting down")
	}
}
