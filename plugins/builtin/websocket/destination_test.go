package websocket_test

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	library "nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/plugins/builtin/websocket"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// heard are the messages that a server has received.
type heard struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

// take receives messages until the connection ends. accept is called with each; false ends the connection.
func (h *heard) take(c *library.Conn, accept func(text string) bool) {
	c.SetReadLimit(-1)
	for {
		kind, text, err := c.Read(context.Background())
		if err != nil || accept != nil && !accept(string(text)) {
			return
		}
		h.mu.Lock()
		if kind == library.MessageBinary {
			text = append([]byte("binary "), text...)
		}
		h.all = append(h.all, string(text))
		h.mu.Unlock()
	}
}

func (h *heard) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// TestDestinationSends sends payloads and templates, and refuses records without a text.
func TestDestinationSends(t *testing.T) {
	object := record.Record{After: record.Structured(map[string]any{"a": 1, "b": "x"})}
	object.Metadata.Set("team", "blue")
	for name, c := range map[string]struct {
		settings map[string]string
		r        record.Record
		want     string // message or error
		refused  bool
	}{
		"text":   {map[string]string{}, texts("hello")[0], "hello", false},
		"empty":  {map[string]string{}, texts("")[0], "", false},
		"object": {map[string]string{}, object, `{"a":1,"b":"x"}`, false},
		"template": {map[string]string{"message": "{{ .Metadata.team }}: {{ .Payload.After.b }}"}, object, "blue: x",
			false},
		"binary":     {map[string]string{"type": "binary"}, texts("a\xff")[0], "binary a\xff", false},
		"no text":    {map[string]string{}, texts("a\xff")[0], "set type to binary", true},
		"no payload": {map[string]string{}, record.Record{}, "no payload after the change", true},
		"no template": {map[string]string{"message": "{{ .Payload.After.b }}"},
			record.Record{After: record.Structured(map[string]any{"a": 1})}, "template of message", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &heard{}
			c.settings["url"] = serve(t, func(c *library.Conn, _ *http.Request) { h.take(c, nil) })
			d := open(t, destination(t, c.settings))
			n, err := d.Write(t.Context(), []record.Record{object, c.r, object})
			if c.refused {
				if n != 1 || err == nil || !strings.Contains(err.Error(), c.want) || lost(err) {
					t.Errorf("wrote %d, %v", n, err)
				}
				return
			}
			if n != 3 || err != nil || h.list()[1] != c.want {
				t.Errorf("wrote %d, %v: %q", n, err, h.list())
			}
		})
	}
}

// TestDestinationResends sends the messages again that the server had no time to read, in order.
func TestDestinationResends(t *testing.T) {
	h, connections := &heard{}, atomic.Int64{}
	url := serve(t, func(c *library.Conn, _ *http.Request) {
		n := connections.Add(1)
		h.take(c, func(text string) bool { return n > 2 || text != "3" })
	})
	d := open(t, destination(t, map[string]string{"url": url}))
	if n, err := d.Write(t.Context(), texts("1", "2", "3", "4")); n != 4 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := strings.Join(h.list(), " "); got != "1 2 1 2 1 2 3 4" {
		t.Errorf("the server has %s", got)
	}
}

// TestDestinationWaits counts no message as written until the server has answered the ping behind it.
func TestDestinationWaits(t *testing.T) {
	read := make(chan struct{})
	url := serve(t, func(c *library.Conn, _ *http.Request) {
		<-read
		(&heard{}).take(c, nil)
	})
	d := open(t, destination(t, map[string]string{"url": url}))
	written := make(chan error)
	go func() {
		_, err := d.Write(t.Context(), texts("1"))
		written <- err
	}()
	wait.For(t, "a ping", func() bool { return wait.Goroutines("websocket.(*Conn).ping") == 1 })
	select {
	case err := <-written:
		t.Fatalf("written before it was read: %v", err)
	default:
	}
	close(read)
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestDestinationSilent gives up a server that answers no pings, and says so.
func TestDestinationSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections := 0
		d := destination(t, map[string]string{"url": "ws://h", "timeout": "10s", "retry.timeout": "25s"})
		websocket.SetDestinationNetwork(d, network.ServePipes(t, mute(t, func(c net.Conn) {
			connections++
			_, _ = io.Copy(io.Discard, c)
		})).Dial)
		open(t, d)
		began := time.Now()
		n, err := d.Write(t.Context(), texts("1"))
		if n != 0 || !lost(err) || !strings.Contains(err.Error(), "did not answer a ping within 10s") {
			t.Errorf("wrote %d, %v", n, err)
		}
		if took := time.Since(began); connections != 3 || took > 40*time.Second {
			t.Errorf("%d connections in %v", connections, took)
		}
	})
}

// TestDestinationRefused finds the message that the server refuses, and sends the others.
func TestDestinationRefused(t *testing.T) {
	h := &heard{}
	url := serve(t, func(c *library.Conn, _ *http.Request) {
		h.take(c, func(text string) bool {
			if strings.Contains(text, "bad") {
				_ = c.Close(library.StatusInvalidFramePayloadData, "not JSON")
				return false
			}
			return true
		})
	})
	d := open(t, destination(t, map[string]string{"url": url}))
	if n, err := d.Write(t.Context(), texts("bad", "1")); n != 0 || !lost(err) ||
		!strings.Contains(err.Error(), "check url and type") {
		t.Errorf("before anything was accepted it wrote %d, %v", n, err)
	}
	records := texts("1", "2", "bad", "3")
	n, err := d.Write(t.Context(), records)
	if n != 2 || err == nil || lost(err) || !strings.Contains(err.Error(), `status 1007 and the reason "not JSON"`) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if n, err := d.Write(t.Context(), records[3:]); n != 1 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := h.list(); !slices.Contains(got, "2") || got[len(got)-1] != "3" {
		t.Errorf("the server has %q", got)
	}
}

// TestDestinationDenied does not retry when the server refuses the client.
func TestDestinationDenied(t *testing.T) {
	requests := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(h.Close)
	d := open(t, destination(t, map[string]string{"url": "ws" + strings.TrimPrefix(h.URL, "http")}))
	if n, err := d.Write(t.Context(), texts("1")); n != 0 || !lost(err) || !strings.Contains(err.Error(), "auth.*") {
		t.Errorf("wrote %d, %v", n, err)
	}
	if requests != 1 {
		t.Errorf("%d requests", requests)
	}
}

// TestDestinationListens sends every message to every connected client. Without a client, messages wait.
func TestDestinationListens(t *testing.T) {
	settings, addr := listening(t)
	d := open(t, destination(t, settings))
	written := make(chan error)
	write := func(all ...string) {
		go func() {
			_, err := d.Write(t.Context(), texts(all...))
			written <- err
		}()
	}
	write("1", "2")
	wait.For(t, "waiting for a client", func() bool { return wait.Goroutines("websocket.(*audience).write") == 1 })
	select {
	case err := <-written:
		t.Fatalf("written without a client: %v", err)
	default:
	}
	first, a := connected(t, addr), &heard{}
	go a.take(first, nil)
	if err := <-written; err != nil {
		t.Error(err)
	}
	second, b := connected(t, addr), &heard{}
	go b.take(second, nil)
	wait.For(t, "both clients", func() bool { return wait.Goroutines("websocket.(*audience).serve") == 2 })
	write("3")
	if err := <-written; err != nil {
		t.Error(err)
	}
	if got := strings.Join(a.list(), " ") + ", " + strings.Join(b.list(), " "); got != "1 2 3, 3" {
		t.Errorf("the clients have %s", got)
	}
}

// TestDestinationDrops drops messages without a client if it may.
func TestDestinationDrops(t *testing.T) {
	settings, _ := listening(t, "noReader", "drop")
	d := open(t, destination(t, settings))
	if n, err := d.Write(t.Context(), texts("1", "2")); n != 2 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
}

// TestDestinationSlowClient disconnects a client that does not read in time; the others have all messages.
func TestDestinationSlowClient(t *testing.T) {
	settings, addr := listening(t, "timeout", "200ms")
	d := open(t, destination(t, settings))
	slow, c, h := connected(t, addr), connected(t, addr), &heard{}
	go h.take(c, nil)
	wait.For(t, "both clients", func() bool { return wait.Goroutines("websocket.(*audience).serve") == 2 })
	if n, err := d.Write(t.Context(), texts("1", "2")); n != 2 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := strings.Join(h.list(), " "); got != "1 2" {
		t.Errorf("the client has %s", got)
	}
	var err error
	for err == nil {
		_, _, err = slow.Read(t.Context())
	}
	wait.For(t, "the slow client to be gone", func() bool { return wait.Goroutines("websocket.(*audience).serve") == 1 })
}

// TestDestinationLastClientGone keeps messages for the next client when no client has read them.
func TestDestinationLastClientGone(t *testing.T) {
	settings, addr := listening(t, "timeout", "100ms")
	d := open(t, destination(t, settings))
	connected(t, addr) // reads nothing
	wait.For(t, "the client", func() bool { return wait.Goroutines("websocket.(*audience).serve") == 1 })
	written := make(chan error)
	go func() {
		_, err := d.Write(t.Context(), texts("1", "2"))
		written <- err
	}()
	wait.For(t, "the client to be gone", func() bool { return wait.Goroutines("websocket.(*audience).serve") == 0 })
	next, h := connected(t, addr), &heard{}
	go h.take(next, nil)
	if err := <-written; err != nil {
		t.Error(err)
	}
	if got := strings.Join(h.list(), " "); got != "1 2" {
		t.Errorf("the next client has %s", got)
	}
}

// TestContract checks the contract of connectors for sending to a server.
func TestContract(t *testing.T) {
	servers := map[string]*heard{}
	plugintest.Run(t, plugintest.Target{
		Connector: websocket.Connector(),
		Destination: func(t testing.TB) map[string]string {
			h := &heard{}
			url := serve(t, func(c *library.Conn, _ *http.Request) { h.take(c, nil) })
			servers[url] = h
			return map[string]string{"url": url}
		},
		Written: func(_ testing.TB, settings map[string]string) []string { return servers[settings["url"]].list() },
	})
}
