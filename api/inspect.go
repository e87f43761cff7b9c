package api

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
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
	session := &session{wanted: wanted, lines: !isUpgrade(r), under: connection(r)}
	feed := s.inspector.join(id, session) // before the client hears that it sees records
	if feed == nil {
		return nil, rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany, "there are %d inspector sessions already", maxSessions)
	}
	if err := session.begin(w, r); err != nil || session.conn == nil {
		s.inspector.leave(feed, session)
		return nil, err
	}
	feed.serve(session)
	return nil, nil
}

// forgotten reports whether there is no connector with this id, not even in a pipeline that
// its file withdrew and may bring back.
func (s *Server) forgotten(id string) bool {
	all, err := s.Desired.Declarations(context.Background())
	return err == nil && !slices.ContainsFunc(all, func(d spec.Declaration) bool { return connectorIn(&d.Pipeline, id) >= 0 })
}

// begin answers the request and takes its connection over. There is no connection
// afterwards if the answer is that something is wrong with the request.
func (s *session) begin(w http.ResponseWriter, r *http.Request) error {
	if s.under == nil {
		return rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "records are shown on connections of this server only")
	}
	taken := &takeOver{ResponseWriter: w, session: s}
	if s.lines {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Transfer-Encoding", "identity") // it ends with the connection
		w.WriteHeader(http.StatusOK)
		_, _, err := taken.Hijack()
		return err
	}
	// The origin was checked before anything else.
	c, err := websocket.Accept(taken, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"conduit"}})
	if err != nil {
		return nil // Accept answered
	}
	return c.CloseNow() // it would keep two goroutines; the handshake is done
}

// takeOver has the session get the connection of an answer.
type takeOver struct {
	http.ResponseWriter
	session *session
}

// Hijack returns a connection that stays open when it is closed.
func (t *takeOver) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // what is buffered is there
	if err := t.session.under.detach(); err != nil {
		c.Close()
		return nil, nil, err
	}
	t.session.conn, t.session.in = c, bytes.Clone(early)
	return open{c}, buffered, nil
}

// open is a connection that stays open.
type open struct{ net.Conn }

// Close does nothing.
func (open) Close() error { return nil }
