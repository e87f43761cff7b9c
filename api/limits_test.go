package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// hold opens n connections, sends a request on each, and, if answered is set, reads an answer.
func hold(t testing.TB, url, request string, n int, answered bool) []net.Conn {
	t.Helper()
	all := make([]net.Conn, n)
	for i := range all {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if all[i] = conn; !answered {
			continue
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %v, error %v", i, response, err)
		}
	}
	return all
}

const (
	unfinished = "POST /v1/pipelines HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
		"application/json\r\nContent-Length: 100\r\n\r\n{"
	waiting = "POST /v1/pipelines/a/restart?wait=10m HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
		"application/json\r\nContent-Length: 2\r\n\r\n{}"
	finished = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// dialed returns a client that uses a new connection.
func dialed(c *client.Client) *client.Client {
	return &client.Client{URL: c.URL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func TestTooManyConnections(t *testing.T) {
	t.Cleanup(api.ConnectionWait(50 * time.Millisecond))
	w, s, c := inspectable(t)
	inspector := open(t, c.URL, "")
	wait.For(t, "the session is open", func() bool { return s.Stats().Sessions["a:gen"] == 1 })
	w.freeze()
	held := hold(t, c.URL, waiting, api.MaxConns, false)
	wait.For(t, "all requests are received", func() bool { return w.restarted() == api.MaxConns })
	other := dialed(c)
	for range 3 {
		err := other.Healthy(t.Context())
		if client.Reason(err) != rest.ReasonTooMany ||
			!strings.Contains(err.Error(), fmt.Sprintf("the limit of %d connections is reached", api.MaxConns)) {
			t.Errorf("one more than there may be: %v", err)
		}
	}
	inspector.send(masked(0x89, "still here"))
	if _, payload, err := inspector.frame(); payload != "still here" || err != nil {
		t.Errorf("an inspector that was there: %q, error %v", payload, err)
	}
	hold(t, c.URL, "", api.MaxRejected, false)
	if err := other.Healthy(t.Context()); err == nil || client.Reason(err) != "" {
		t.Errorf("more than can be reported: %v", err)
	}
	for _, conn := range held {
		conn.Close()
	}
	wait.For(t, "there is a place again", func() bool { return other.Healthy(t.Context()) == nil })
}

// Connections without a request give way.
func TestIdleConnectionsGiveWay(t *testing.T) {
	_, _, c := inspectable(t)
	hold(t, c.URL, finished, api.MaxConns+20, true)
}

// When all slots are taken, a connection ends with the answer to its request, and frees its slot for the next.
func TestClientsTakeTurns(t *testing.T) {
	t.Cleanup(api.ConnectionWait(wait.Limit))
	_, _, c := inspectable(t)
	held := hold(t, c.URL, finished, api.MaxConns-1, true)
	busy := hold(t, c.URL, "", 1, false)[0]
	ask := func(conn net.Conn) *http.Response {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(wait.Limit))
		if _, err := io.WriteString(conn, finished); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return response
	}
	if got := ask(busy); !got.Close {
		t.Error("the connection stays although all places are taken")
	}
	n := 0 // the slot is free a moment after the answer
	wait.For(t, "connections stay when there is a place", func() bool { n++; return !ask(held[n-1]).Close })
	if n > len(held)/2 {
		t.Errorf("%d connections ended although there was a place", n-1)
	}
}

// Connections that come at once are served one after another.
func TestConnectionsWait(t *testing.T) {
	t.Cleanup(api.ConnectionWait(time.Minute))
	w, _, c := inspectable(t)
	w.freeze()
	held := hold(t, c.URL, waiting, api.MaxConns, false)
	wait.For(t, "all requests are received", func() bool { return w.restarted() == api.MaxConns })
	answered := make(chan error, 1)
	go func() { answered <- dialed(c).Healthy(t.Context()) }()
	wait.For(t, "the connection waits for a place", func() bool {
		return len(answered) > 0 || wait.Goroutines("guard.(*Limiter).await") == 1
	})
	if len(answered) > 0 {
		t.Fatalf("answered beyond the limit: error %v", <-answered)
	}
	for _, conn := range held {
		conn.Close()
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestSlowBodiesLeaveConnections holds more connections than the limit, each with a request that never ends: the agent
// stays reachable, and clients without a token are refused at once.
func TestSlowBodiesLeaveConnections(t *testing.T) {
	for name, admin := range map[string]string{"without a token": "", "with a token": "admin"} {
		w := newWorld(t)
		s := newServer(w)
		s.Tokens = withTokens("", admin)
		c, stop := serve(t, s)
		slow := hold(t, c.URL, unfinished, api.MaxConns+50, false)
		for range 3 {
			if err := dialed(c).Healthy(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if admin != "" {
			refusedAtOnce(t, slow[len(slow)-20:])
		}
		for _, conn := range slow {
			conn.Close()
		}
		stop()
	}
}

// refusedAtOnce checks that the requests on the connections are refused, and that the
// connections end without the rest of the requests.
func refusedAtOnce(t *testing.T, conns []net.Conn) {
	t.Helper()
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
			t.Fatalf("connection %d: %.80q, error %v", i, answer, err)
		}
	}
}

func TestTooManyStreams(t *testing.T) {
	_, _, c := inspectable(t)
	const events = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
	streams := hold(t, c.URL, events, api.MaxStreams, true)
	last := hold(t, c.URL, events, 1, false)[0]
	response, err := http.ReadResponse(bufio.NewReader(last), nil)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("one more: %v, error %v", response, err)
	}
	if err := dialed(c).Healthy(t.Context()); err != nil {
		t.Errorf("streams take the place of others: %v", err)
	}
	streams[0].Close()
	wait.For(t, "another stream is possible", func() bool {
		conn := hold(t, c.URL, events, 1, false)[0]
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err == nil && response.StatusCode == http.StatusOK
	})
}

func TestWrongTokensAreLimited(t *testing.T) {
	s := newServer(newWorld(t))
	s.Tokens = withTokens("reader", "admin")
	h := s.Handler()
	try := func(token string) call { return do(h, "GET", "/v1/pipelines", "", "Authorization", "Bearer "+token) }
	limited := func() int {
		for n := range 1000 {
			if got := try("wrong"); got.status == http.StatusTooManyRequests {
				if got.reason() != rest.ReasonTooMany || got.header.Get("Retry-After") == "" {
					t.Errorf("%v %s", got.header, got.body)
				}
				return n
			}
		}
		t.Fatal("wrong tokens are not limited")
		return 0
	}
	if n := limited(); n < 10 {
		t.Errorf("limited after %d wrong tokens", n)
	}
	for range 20 {
		limited()
		if got := try("reader"); got.status != http.StatusOK {
			t.Errorf("a valid token: %d %s", got.status, got.body)
		}
	}
	if got := try(""); got.status != http.StatusUnauthorized {
		t.Errorf("no token: %d %s", got.status, got.body)
	}
	wait.For(t, "the address may try again", func() bool { return try("wrong").status == http.StatusUnauthorized })
}

// pipes is a listener for connections within the process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.closed); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// TestUnusedConnectionsEndWithTheServer checks that connections that clients opened in advance, as browsers do, do not
// delay the end of the server. net/http closes such connections after five seconds.
func TestUnusedConnectionsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- newServer(newWorld(t)).Serve(ctx, l) }()
		for range 3 {
			client, server := net.Pipe()
			defer client.Close()
			l.conns <- server
		}
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the server ended after %v", took)
		}
	})
}
