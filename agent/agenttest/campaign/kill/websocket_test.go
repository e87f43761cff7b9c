package kill_test

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec/notify"
)

// withWebSocket returns a handler that stores the messages that arrive over WebSockets at /websocket, and passes on
// other requests. It stores a message before it reads on, so that a ping is answered when those before it are stored.
func withWebSocket(s *apiServer, other http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", other)
	mux.HandleFunc("/websocket", func(w http.ResponseWriter, r *http.Request) {
		if token, err := os.ReadFile("token"); err != nil || r.Header.Get("Authorization") != "Bearer "+string(token) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			_, text, err := c.Read(r.Context())
			if err != nil {
				return
			}
			s.mu.Lock()
			err = s.store("", string(text)+"\n")
			s.mu.Unlock()
			if err != nil {
				log.Print(err)
				return
			}
		}
	})
	return mux
}

// device sends messages to the agent, and waits until they are acknowledged.
type device struct {
	addr, token string
	conn        *websocket.Conn // nil: there is no connection
	sent        int             // messages over the connection
}

// send sends the messages with the numbers from first to first+n-1, and returns nil when they are acknowledged.
func (d *device) send(ctx context.Context, first, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := d.try(ctx, first, n)
	if err != nil && d.conn != nil {
		_ = d.conn.CloseNow()
		d.conn = nil
	}
	return err
}

func (d *device) try(ctx context.Context, first, n int) error {
	if d.conn == nil {
		token, err := os.ReadFile(d.token)
		if err != nil {
			return err
		}
		d.sent = 0
		d.conn, _, err = websocket.Dial(ctx, "ws://"+d.addr, &websocket.DialOptions{
			HTTPHeader: http.Header{"Authorization": {"Bearer " + string(token)}}})
		if err != nil {
			d.conn = nil
			return err
		}
	}
	for i := range n {
		if err := d.conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"n":%d}`, first+i)); err != nil {
			return err
		}
	}
	d.sent += n
	for {
		_, text, err := d.conn.Read(ctx)
		if err != nil {
			return err
		}
		var answer struct{ Acknowledged int }
		if err := json.Unmarshal(text, &answer); err != nil {
			return err
		}
		switch {
		case answer.Acknowledged == d.sent:
			return nil
		case answer.Acknowledged > d.sent:
			return errors.New("the agent acknowledges messages that were not sent")
		}
	}
}

// TestWebSocketSource sends messages to the agent: none that is acknowledged is lost. A message over a connection that
// is given up may still be on its way when it comes again over the next one, so the order is that of each connection.
func TestWebSocketSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:websocket", NoOrder: true,
		System: func(t *testing.T, dir string) *kill.System {
			own := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
			token, rotate := rotatedToken(t, dir)
			d := &device{token: token}
			return &kill.System{
				Addr: own,
				Settings: func(addr string) map[string]string {
					d.addr = addr
					return map[string]string{"mode": "listen", "address": own, "auth.token": "${file:" + token + "}",
						"acknowledge": "message", "ping.interval": "1s", "ping.timeout": "1s"}
				},
				Rotate:  rotate,
				Produce: d.send,
			}
		},
	})
}

// feed is a WebSocket server that sends numbered messages to the client that connected last. It keeps no message.
type feed struct {
	addr, token string
	server      *http.Server  // nil: it is stopped
	listener    net.Listener  // of server
	connected   notify.Signal // a client has connected

	mu   sync.Mutex
	conn *websocket.Conn // guarded by mu; nil: there is none
}

// ServeHTTP accepts a client, and waits until it has gone.
func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if token, err := os.ReadFile(f.token); err != nil || r.Header.Get("Authorization") != "Bearer "+string(token) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.conn = c
	f.mu.Unlock()
	f.connected.Notify()
	_, _, _ = c.Read(context.Background()) // answers pings
	f.drop(c)
}

// current returns the connection, nil for none.
func (f *feed) current() *websocket.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conn
}

// drop closes a connection. nil stands for none.
func (f *feed) drop(c *websocket.Conn) {
	if c == nil {
		return
	}
	_ = c.CloseNow()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == c {
		f.conn = nil
	}
}

// Start implements kill.Server.
func (f *feed) Start(ctx context.Context) error {
	var l net.ListenConfig
	listener, err := l.Listen(ctx, "tcp", f.addr)
	if err != nil {
		return err
	}
	f.listener, f.server = listener, &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(listener) }(f.server)
	return nil
}

// Stop implements kill.Server.
func (f *feed) Stop() {
	if c := f.current(); c != nil {
		_ = c.Close(websocket.StatusGoingAway, "the server stops")
	}
	f.Kill()
}

// Kill implements kill.Server.
func (f *feed) Kill() {
	_ = f.server.Close()
	_ = f.listener.Close() // the server does not know it yet if it has only just been started
	f.drop(f.current())
}

// send sends each message at most once, when there is a connection.
func (f *feed) send(ctx context.Context, first, n int) error {
	c := f.current()
	for ; c == nil; c = f.current() {
		select {
		case <-f.connected:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for i := range n {
		if c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"n":%d}`, first+i)) != nil {
			f.drop(c)
			break // the others are lost
		}
	}
	return nil
}

// TestWebSocketFeedSource receives from a server that keeps no message: a fault loses some messages, and none comes
// twice or out of order. Without a fault nothing is lost.
func TestWebSocketFeedSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:websocket", Lossy: true,
		System: func(t *testing.T, dir string) *kill.System {
			f := &feed{addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), connected: notify.NewSignal()}
			token, rotate := rotatedToken(t, dir)
			f.token = token
			if err := f.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Kill)
			return &kill.System{
				Addr: f.addr, Server: f, Produce: f.send,
				Settings: func(addr string) map[string]string {
					return map[string]string{"url": "ws://" + addr, "auth.token": "${file:" + token + "}",
						"ping.interval": "1s", "ping.timeout": "1s", "timeout": "5s"}
				},
				Rotate: func(ctx context.Context) error {
					err := rotate(ctx)
					f.drop(f.current())
					return err
				},
			}
		},
	})
}

// TestWebSocketDestination sends records to a server that stores each message before it answers a ping behind it.
func TestWebSocketDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:websocket", Reread: true,
		System: func(t *testing.T, dir string) *kill.System {
			a := startAPI(t, dir)
			return &kill.System{
				Addr: a.addr, Server: a, Rotate: a.rotate, Stored: a.stored,
				Settings: func(addr string) map[string]string {
					return map[string]string{"url": "ws://" + addr + "/websocket", "auth.token": "${file:" + a.token +
						"}", "timeout": "2s", "retry.timeout": "1s"}
				},
			}
		},
	})
}

// TestWebSocketExample runs the example of the connector's page with a server that wants a subscription.
func TestWebSocketExample(t *testing.T) {
	load.Parallel(t, load.Agent)
	a := agenttest.Start(t, "")
	feed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		_, request, err := c.Read(r.Context())
		if err != nil || r.Header.Get("Authorization") != "Bearer word" {
			return
		}
		_ = c.Write(r.Context(), websocket.MessageText, append([]byte("subscribed to "), request...))
		_, _, _ = c.Read(r.Context())
	}))
	t.Cleanup(feed.Close)
	if err := os.WriteFile(a.Path("token"), []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := example(t, "plugins/builtin/websocket/README.md")
	file = replace(t, file, "wss://feed.example.com", "ws"+strings.TrimPrefix(feed.URL, "http"))
	file = replace(t, file, "/etc/conduit/feed-token", a.Path("token"))
	file = replace(t, file, "path: trades.jsonl",
		"path: "+a.Path("trades.jsonl")+", sdk.record.format: opencdc/text")
	a.Save("trades.yaml", file)
	a.Wait("the message", func() bool {
		content, _ := os.ReadFile(a.Path("trades.jsonl"))
		return strings.Contains(string(content), `subscribed to {\"op\": \"subscribe\"`)
	})
}
