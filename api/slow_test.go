package api_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// trickle sends the beginning of a request, and then more every 10 ms.
func trickle(conn net.Conn, beginning, more string) {
	_, _ = io.WriteString(conn, beginning) // the test reads the response
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := io.WriteString(conn, more); err != nil {
			return
		}
	}
}

// Clients that take their time lose the connection, even when they send something now and then.
func TestSlowClientsAreLeft(t *testing.T) {
	defer api.ShortTimeouts(100*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond)()
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	c, stop := serve(t, newServer(w))
	defer stop() // before the default limits are restored
	address := strings.TrimPrefix(c.URL, "http://")
	const body = "POST /v1/pipelines HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
		"application/json\r\nContent-Length: 1000000\r\n\r\n{"
	var clients sync.WaitGroup
	for name, request := range map[string]struct{ beginning, more, answer string }{
		"headers":         {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "X: y\r\n", ""},
		"the first line":  {"G", "E", ""},
		"a body":          {body, " ", "HTTP/1.1 400"},
		"nothing":         {"", "", ""},
		"no next request": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "", "HTTP/1.1 200"},
	} {
		clients.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			go trickle(conn, request.beginning, request.more)
			_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
			got, err := io.ReadAll(conn)
			if ne, ok := err.(net.Error); ok && ne.Timeout() || !strings.HasPrefix(string(got), request.answer) {
				t.Errorf("%s: %q, error %v", name, got, err)
			}
		})
	}
	clients.Wait()
}

// A stream is no slow request: it outlives the limits.
func TestStreamsOutliveTheLimits(t *testing.T) {
	defer api.ShortTimeouts(50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond)()
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	c, stop := serve(t, newServer(w))
	defer stop()
	response, err := http.Get(c.URL + "/v1/connectors/a:gen/inspect")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for i := range 4 {
		leaves(t, c.URL) // a slow request that began after the stream
		w.pass("a:gen", rec(i))
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
}

// leaves returns when the server has closed the connection of a client that sends nothing.
func leaves(t *testing.T, url string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("a client that sends nothing is not left: %v", err)
	}
}
