package inspect

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"strings"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/api/rest"
)

func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// begin answers the request and takes its connection over. If the answer is an error in the request, the session has no
// connection afterwards.
func (s *session) begin(w http.ResponseWriter, r *http.Request) error {
	if s.under == nil {
		return rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "records are shown on connections of this server only")
	}
	taken := &takeOver{ResponseWriter: w, session: s}
	if s.lines {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Transfer-Encoding", "identity") // the body ends with the connection
		w.WriteHeader(http.StatusOK)
		_, _, err := taken.Hijack()
		return err
	}
	// The origin has been checked already.
	c, err := websocket.Accept(taken, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"conduit"}})
	if err != nil {
		return nil // Accept answered
	}
	return c.CloseNow() // it would keep two goroutines; the handshake is done
}

// takeOver gives the session the connection of a response.
type takeOver struct {
	http.ResponseWriter
	session *session
}

// Hijack returns a connection with a Close method that does nothing.
func (t *takeOver) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // the buffered bytes are available
	if err := t.session.under.detach(); err != nil {
		c.Close()
		return nil, nil, err
	}
	t.session.conn, t.session.in = c, bytes.Clone(early)
	return open{c}, buffered, nil
}

// open is a connection with a Close method that does nothing.
type open struct{ net.Conn }

// Close does nothing.
func (open) Close() error { return nil }
