package websocket_test

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	library "nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/plugins/builtin/websocket"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// accepting returns a handler that opens a WebSocket and calls serve. The connection ends with serve.
func accepting(serve func(c *library.Conn, r *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := library.Accept(w, r, &library.AcceptOptions{Subprotocols: []string{"v2"}})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		serve(c, r)
	})
}

// serve returns the URL of a server that calls serve for each connection.
func serve(t testing.TB, serve func(c *library.Conn, r *http.Request)) string {
	t.Helper()
	s := httptest.NewServer(accepting(serve))
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http")
}

func say(t testing.TB, c *library.Conn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := c.Write(t.Context(), library.MessageText, []byte(text)); err != nil && t.Context().Err() == nil {
			t.Errorf("cannot send %.20q: %v", text, err)
		}
	}
}

func hear(t testing.TB, c *library.Conn) string {
	t.Helper()
	_, text, err := c.Read(t.Context())
	if err != nil {
		t.Errorf("cannot receive: %v", err)
	}
	return string(text)
}

// stay answers pings until the other side has left.
func stay(c *library.Conn) error {
	_, _, err := c.Read(context.Background())
	return err
}

// dial connects to a server under test.
func dial(t testing.TB, addr string, header ...string) (*library.Conn, *http.Response, error) {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, r, err := library.Dial(t.Context(), "ws://"+addr, &library.DialOptions{HTTPHeader: h,
		Subprotocols: []string{"v1", "v2"}})
	if err == nil {
		t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, r, err
}

func connected(t testing.TB, addr string, header ...string) *library.Conn {
	t.Helper()
	c, _, err := dial(t, addr, header...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// listening returns settings of a server at a free port, and its address.
func listening(t testing.TB, more ...string) (settings map[string]string, addr string) {
	t.Helper()
	addr = "127.0.0.1:" + strconv.Itoa(network.FreePort(t))
	settings = map[string]string{"mode": "listen", "address": addr}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return settings, addr
}

func withDefaults(p sdk.Parameters, settings map[string]string) map[string]string {
	return p.ApplyDefaults(settings)
}

func source(t testing.TB, settings map[string]string) *websocket.Source {
	t.Helper()
	s := &websocket.Source{}
	return plugintest.OpenSource(t, s, withDefaults(s.Parameters(), settings), nil)
}

func destination(t testing.TB, settings map[string]string) *websocket.Destination {
	t.Helper()
	d := &websocket.Destination{}
	if err := d.Configure(t.Context(), withDefaults(d.Parameters(), settings)); err != nil {
		t.Fatal(err)
	}
	return d
}

// open opens a destination, which ends with the test.
func open(t testing.TB, d *websocket.Destination) *websocket.Destination {
	t.Helper()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

func payloads(records []record.Record) (all []string) {
	for i := range records {
		raw, _ := records[i].After.Raw()
		all = append(all, string(raw))
	}
	return all
}

func ack(t testing.TB, s sdk.Source, records []record.Record) {
	t.Helper()
	var all []record.Position
	for i := range records {
		all = append(all, records[i].Position)
	}
	if err := s.Ack(t.Context(), all); err != nil {
		t.Error(err)
	}
}

// texts returns records with these payloads.
func texts(all ...string) (records []record.Record) {
	for i, text := range all {
		records = append(records, record.Record{Position: record.Position(strconv.Itoa(i)),
			Operation: record.OperationCreate, After: record.Raw([]byte(text))})
	}
	return records
}

func lost(err error) bool {
	var unavailable interface{ Lost() bool }
	return errors.As(err, &unavailable)
}

// warns waits until the progress of a source has a warning with text.
func warns(t testing.TB, s *websocket.Source, text string) {
	t.Helper()
	wait.For(t, "a warning with "+text, func() bool { return strings.Contains(s.Progress().Warning, text) },
		func() string { return s.Progress().Warning })
}

// TestSettings checks that wrong settings are refused, with the setting to change.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{}, `"url": is required`},
		{map[string]string{"url": "http://h"}, `"url": must be ws://HOST`},
		{map[string]string{"url": "ws://"}, `"url": must be ws://HOST`},
		{map[string]string{"url": "ws://u:secret@h"}, `"url": must not contain a user`},
		{map[string]string{"url": "ws://h/#a"}, `"url": must not contain a fragment`},
		{map[string]string{"url": "ws://h", "auth.token": "a\nb"}, `auth.token`},
		{map[string]string{"url": "ws://h", "headers.X-A": "a\nb"}, `headers.X-A`},
		{map[string]string{"url": "ws://h", "auth.token": "a", "auth.username": "b"}, `"auth.token"`},
		{map[string]string{"url": "ws://h", "subprotocols": "a b"}, `"subprotocols"`},
		{map[string]string{"url": "ws://h", "tls.ca": "x"}, `tls.ca`},
		{map[string]string{"mode": "listen", "url": "ws://h"}, `"url": needs mode connect`},
		{map[string]string{"mode": "listen", "headers.X-A": "a"}, `"headers.*": needs mode connect`},
		{map[string]string{"mode": "listen", "address": "0.0.0.0:1"}, `"address": can be reached`},
		{map[string]string{"mode": "listen", "address": "u:p@h:1"}, `"address": must be HOST:PORT`},
		{map[string]string{"mode": "listen", "address": "localhost"}, `"address": must be a host and a port`},
		{map[string]string{"mode": "listen", "origins": "example.com"}, `"origins"`},
		{map[string]string{"mode": "listen", "origins": "https://a.example/x"}, `"origins"`},
		{map[string]string{"mode": "listen", "tls.cert": "x"}, `"tls.key"`},
		{map[string]string{"source": "", "mode": "listen", "subscribe": "a"}, `"subscribe": needs mode connect`},
		{map[string]string{"source": "", "url": "ws://h", "acknowledge": "message"}, `"acknowledge": needs mode listen`},
		{map[string]string{"source": "", "url": "ws://h", "limit.bytes": "10"}, `"message.maxBytes": must be at most`},
		{map[string]string{"destination": "", "url": "ws://h", "noReader": "drop"}, `"noReader": needs mode listen`},
		{map[string]string{"destination": "", "url": "ws://h", "message": "{{ .Key"}, `"message"`},
	} {
		_, only := c.settings["source"]
		_, other := c.settings["destination"]
		delete(c.settings, "source")
		delete(c.settings, "destination")
		for _, side := range []interface {
			Parameters() sdk.Parameters
			Configure(context.Context, map[string]string) error
		}{&websocket.Source{}, &websocket.Destination{}} {
			if _, isSource := side.(*websocket.Source); isSource && other || !isSource && only {
				continue
			}
			err := side.Configure(t.Context(), withDefaults(side.Parameters(), c.settings))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%T with %v: %v, want %s", side, c.settings, err, c.want)
			}
		}
	}
}
