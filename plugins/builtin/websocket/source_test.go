package websocket_test

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
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
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestSourceConnects receives text and binary messages after it has subscribed.
func TestSourceConnects(t *testing.T) {
	url := serve(t, func(c *library.Conn, r *http.Request) {
		if got := r.Header.Get("Authorization") + r.Header.Get("X-Feed"); got != "Bearer wordfast" {
			t.Errorf("the request has %q", got)
		}
		say(t, c, "heard "+hear(t, c), "heard "+hear(t, c))
		if err := c.Write(t.Context(), library.MessageBinary, []byte("\xff\x00")); err != nil {
			t.Error(err)
		}
		_ = stay(c)
	})
	s := source(t, map[string]string{"url": url + "/feed?key=secret", "auth.token": "word", "headers.X-Feed": "fast",
		"subprotocols": "v1,v2", "subscribe": `{"channel":"a","level":1}` + "\n\n" + `{"channel":"b"}` + "\n"})
	records := plugintest.Read(t, s, 3)
	want := []string{`heard {"channel":"a","level":1}`, `heard {"channel":"b"}`, "\xff\x00"}
	if got := payloads(records); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	m, binary := records[0].Metadata, records[2].Metadata
	if m.Get("websocket.url") != url+"/feed" || m.Get("websocket.subprotocol") != "v2" ||
		m.Get("websocket.type") != "text" || binary.Get("websocket.type") != "binary" ||
		m.Get(record.KeyCreatedAt) == "" {
		t.Errorf("metadata is %v", m)
	}
	if n := s.Progress().Records; n == nil || *n != 3 {
		t.Errorf("progress is %+v", s.Progress())
	}
	ack(t, s, records)
	if n := s.Progress().Records; *n != 0 {
		t.Errorf("%d records wait", *n)
	}
}

// TestSourceReconnects reports the status and the reason with which a server has closed the connection.
func TestSourceReconnects(t *testing.T) {
	var connections atomic.Int64
	again := make(chan struct{})
	url := serve(t, func(c *library.Conn, _ *http.Request) {
		n := connections.Add(1)
		if n > 1 {
			<-again
		}
		say(t, c, fmt.Sprint(n))
		if n == 1 {
			_ = c.Close(4001, "token expires")
			return
		}
		_ = stay(c)
	})
	s := source(t, map[string]string{"url": url})
	warns(t, s, `status 4001 and the reason "token expires"`)
	warns(t, s, "messages were missed")
	close(again)
	if got := payloads(plugintest.Read(t, s, 2)); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %q", got)
	}
	if w := s.Progress().Warning; w != "" {
		t.Errorf("connected again, it warns %q", w)
	}
}

// TestSourceSkipsLong skips a message that is too long, also in fragments, and receives the next ones.
func TestSourceSkipsLong(t *testing.T) {
	url := serve(t, func(c *library.Conn, _ *http.Request) {
		say(t, c, "12345678", "123456789", strings.Repeat("x", 1<<20))
		w, err := c.Writer(t.Context(), library.MessageText)
		if err != nil {
			t.Error(err)
			return
		}
		for range 5 {
			_, _ = io.WriteString(w, "1234")
		}
		_ = w.Close()
		say(t, c, "next")
		_ = stay(c)
	})
	s := source(t, map[string]string{"url": url, "message.maxBytes": "8"})
	if got := payloads(plugintest.Read(t, s, 2)); !slices.Equal(got, []string{"12345678", "next"}) {
		t.Errorf("got %q", got)
	}
	if all := s.Progress().Skipped; len(all) != 1 || !strings.Contains(all[0].Of, "8 bytes") ||
		!strings.Contains(all[0].Error, "message.maxBytes") {
		t.Errorf("skipped %+v", all)
	}
}

// TestSourceSizes receives messages of every size up to the maximum.
func TestSourceSizes(t *testing.T) {
	texts := map[int]string{}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 9999, 10_000, 10_001, 100_000} {
		texts[size] = strings.Repeat(fmt.Sprint(size), size)[:size]
	}
	url := serve(t, func(c *library.Conn, _ *http.Request) {
		for _, size := range slices.Sorted(maps.Keys(texts)) {
			say(t, c, texts[size])
		}
		say(t, c, "end")
		_ = stay(c)
	})
	s := source(t, map[string]string{"url": url, "message.maxBytes": "10000", "limit.bytes": "10000"})
	want := []string{"", texts[1], texts[4095], texts[4096], texts[4097], texts[9999], texts[10_000], "end"}
	var got []string
	for len(got) < len(want) {
		records := plugintest.Read(t, s, 1)
		got = append(got, payloads(records)...)
		ack(t, s, records)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("message %d has %d bytes, want %d", i, len(got[i]), len(want[i]))
		}
	}
}

// status returns a handler that answers with a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// TestSourceRefused checks the errors, with the remedies, for responses that open no WebSocket.
func TestSourceRefused(t *testing.T) {
	for name, c := range map[string]struct {
		respond http.HandlerFunc
		want    string
		retry   bool
	}{
		"401": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad token word-4711", http.StatusUnauthorized)
		},
			`status 401 Unauthorized: "bad token ***": check the settings auth.*`, false},
		"403": {status(http.StatusForbidden),
			"status 403 Forbidden: check the settings auth.*", false},
		"404": {http.NotFound, "check the path of url", false},
		"400": {status(http.StatusBadRequest), "check url, subprotocols", false},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "it is a page",
			false},
		"redirect": {http.RedirectHandler("/other", http.StatusFound).ServeHTTP, "set url to the correct URL", false},
		"501":      {status(http.StatusNotImplemented), "status 501", false},
		"503":      {status(http.StatusServiceUnavailable), "status 503", true},
		"429":      {status(http.StatusTooManyRequests), "status 429", true},
		"another upgrade": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"+
				"Upgrade: websocket\r\nSec-WebSocket-Accept: wrong\r\n\r\n")
			_ = conn.Close()
		}, "opens no WebSocket", false},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n")
			_ = conn.Close()
		}, "malformed HTTP", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(c.respond)
			t.Cleanup(h.Close)
			s := source(t, map[string]string{"url": "ws" + strings.TrimPrefix(h.URL, "http"), "auth.token": "word-4711"})
			if c.retry {
				warns(t, s, c.want)
				return
			}
			if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}

// TestSourceTLS checks the certificate of the server, and names the remedy.
func TestSourceTLS(t *testing.T) {
	h := httptest.NewTLSServer(accepting(func(c *library.Conn, _ *http.Request) {
		say(t, c, "one")
		_ = stay(c)
	}))
	t.Cleanup(h.Close)
	url := "wss" + strings.TrimPrefix(h.URL, "https")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	warns(t, source(t, map[string]string{"url": url}), "set tls.ca")
	warns(t, source(t, map[string]string{"url": strings.Replace(url, "127.0.0.1", "localhost", 1), "tls.ca": ca}),
		"use a host name in url")
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	warns(t, source(t, map[string]string{"url": "wss" + strings.TrimPrefix(plain.URL, "http")}), "set url to ws://")
	s := source(t, map[string]string{"url": url, "tls.ca": ca})
	if got := payloads(plugintest.Read(t, s, 1)); got[0] != "one" {
		t.Errorf("got %q", got)
	}
}

// pipes opens a source that is connected to a handler through pipes, for virtual time.
func pipes(t *testing.T, h http.Handler, settings map[string]string) *websocket.Source {
	t.Helper()
	s := &websocket.Source{}
	websocket.SetSourceNetwork(s, network.ServePipes(t, h).Dial)
	settings["url"] = "ws://h"
	return plugintest.OpenSource(t, s, withDefaults(s.Parameters(), settings), nil)
}

// mute opens a WebSocket, and takes over the connection without answering pings.
func mute(t *testing.T, handle func(c net.Conn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var conn net.Conn
		c, err := library.Accept(&taker{w, &conn}, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		handle(conn)
	})
}

type taker struct {
	http.ResponseWriter
	conn *net.Conn
}

func (k *taker) Hijack() (c net.Conn, _ *bufio.ReadWriter, err error) {
	c, rw, err := http.NewResponseController(k.ResponseWriter).Hijack()
	*k.conn = c
	return c, rw, err
}

// once lets a source connect once. Later requests stay unanswered.
func once(h http.Handler) http.Handler {
	var before atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before.Swap(true) {
			<-r.Context().Done()
			return
		}
		h.ServeHTTP(w, r)
	})
}

// TestSourceDead gives up a connection whose server answers no ping for ping.interval and ping.timeout.
func TestSourceDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipes(t, once(mute(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })), map[string]string{})
		time.Sleep(39 * time.Second)
		synctest.Wait()
		if w := s.Progress().Warning; w != "" {
			t.Errorf("after 39 s it warns %q", w)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w := s.Progress().Warning; !strings.Contains(w, "for 40s nothing was received, not even the answer to a ping") {
			t.Errorf("after 41 s it warns %q", w)
		}
	})
}

// TestSourceLives keeps a connection without messages as long as pings are answered.
func TestSourceLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipes(t, once(accepting(func(c *library.Conn, _ *http.Request) { _ = stay(c) })), map[string]string{})
		time.Sleep(time.Hour)
		synctest.Wait()
		if w := s.Progress().Warning; w != "" {
			t.Errorf("it warns %q", w)
		}
	})
}

// TestSourceSlowMessage gives up a connection whose message does not end before the timeout.
func TestSourceSlowMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pipes(t, once(mute(t, func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, _ = c.Write([]byte{0x01, 1, 'a'}) // the beginning of a text in fragments
			for {
				if _, err := c.Write([]byte{0x00, 1, 'b'}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})), map[string]string{})
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if w := s.Progress().Warning; !strings.Contains(w, "a message was not received completely within 30s") {
			t.Errorf("it warns %q", w)
		}
		_ = s.Teardown(t.Context())
		time.Sleep(2 * time.Second) // the server notices
	})
}

// TestSourceHostile closes the connection of a server that breaks the protocol.
func TestSourceHostile(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"long control frame":       {"\x89\x7e\x01\x00" + strings.Repeat("a", 256), "control frame payload"},
		"huge control frame":       {"\x89\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", "control frame payload"},
		"fragmented control frame": {"\x09\x00", "fragmented control frame"},
		"negative length":          {"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "negative"},
		"unknown opcode":           {"\x83\x00", "unknown opcode"},
		"reserved bits":            {"\xc1\x01a", "rsv bits"},
		"continuation first":       {"\x80\x01a", "continuation frame"},
		"message in a message":     {"\x01\x01a\x81\x01b", "without finishing the previous message"},
		"bad close status":         {"\x88\x02\x03\xed", "invalid status code"},
		"short close":              {"\x88\x01a", "too small"},
		"cut off":                  {"\x82\x05ab", "without a close frame"},
		"nothing":                  {"", "without a close frame"},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(mute(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, c.sent)
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			}))
			t.Cleanup(h.Close)
			s := source(t, map[string]string{"url": "ws" + strings.TrimPrefix(h.URL, "http")})
			warns(t, s, c.want)
		})
	}
}

// TestSourceWaits stops reading at the limit of messages, for as long as it takes, without declaring the server dead.
func TestSourceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		s := pipes(t, accepting(func(c *library.Conn, _ *http.Request) {
			go func() {
				for sent.Load() < 10 {
					if c.Write(context.Background(), library.MessageText, fmt.Append(nil, sent.Load())) != nil {
						return
					}
					sent.Add(1)
				}
			}()
			_ = stay(c)
		}), map[string]string{"limit.messages": "3"})
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := sent.Load(); n < 3 || n > 5 {
			t.Errorf("%d messages were sent", n)
		}
		var got []string
		for len(got) < 10 {
			records := plugintest.Read(t, s, 1)
			got = append(got, payloads(records)...)
			ack(t, s, records)
		}
		if want := "0 1 2 3 4 5 6 7 8 9"; strings.Join(got, " ") != want {
			t.Errorf("got %q", got)
		}
		if w := s.Progress().Warning; w != "" {
			t.Errorf("it warns %q", w)
		}
	})
}

// TestSourceListens accepts clients with credentials, and web pages of the allowed origins only.
func TestSourceListens(t *testing.T) {
	settings, addr := listening(t, "auth.token", "word", "path", "/in", "origins", "https://app.example.com",
		"subprotocols", "v2")
	s := source(t, settings)
	for name, c := range map[string]struct {
		path   string
		header []string
		status int
	}{
		"no token":        {"/in", nil, 401},
		"wrong token":     {"/in", []string{"Authorization", "Bearer other"}, 401},
		"another path":    {"/", []string{"Authorization", "Bearer word"}, 404},
		"another page":    {"/in", []string{"Authorization", "Bearer word", "Origin", "https://evil.example"}, 403},
		"the same host":   {"/in", []string{"Authorization", "Bearer word", "Origin", "http://" + addr}, 403},
		"no WebSocket":    {"/in", []string{"Authorization", "Bearer word", "Upgrade", "h2c"}, 0},
		"an allowed page": {"/in", []string{"Authorization", "Bearer word", "Origin", "https://app.example.com"}, 101},
	} {
		_, r, err := dial(t, addr+c.path, c.header...)
		if status := r.StatusCode; c.status != 0 && status != c.status {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
	}
	r, err := http.Get("http://word@" + addr + "/in")
	if err != nil || r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a request without an upgrade is answered %v, %v", r, err)
	}
	_ = r.Body.Close()
	c := connected(t, addr+"/in", "Authorization", "Bearer word")
	say(t, c, "one")
	records := plugintest.Read(t, s, 1)
	m := records[0].Metadata
	if got := payloads(records); got[0] != "one" || m.Get("websocket.path") != "/in" ||
		m.Get("websocket.subprotocol") != "v2" || !strings.HasPrefix(m.Get("websocket.remoteAddress"), "127.0.0.1:") {
		t.Errorf("got %q, %v", got, m)
	}
}

// TestSourceAcknowledges sends clients the number of their committed messages, also when the pipeline stops.
func TestSourceAcknowledges(t *testing.T) {
	settings, addr := listening(t, "acknowledge", "message")
	s := source(t, settings)
	first, other := connected(t, addr), connected(t, addr)
	say(t, first, "1", "2", "3")
	records := plugintest.Read(t, s, 3)
	ack(t, s, records[:2])
	got := hear(t, first)
	if got == `{"acknowledged":1}` { // the first one may be sent alone
		got = hear(t, first)
	}
	if got != `{"acknowledged":2}` {
		t.Errorf("the client hears %q", got)
	}
	say(t, other, "4")
	more := plugintest.Read(t, s, 1)
	ack(t, s, records[2:])
	if got := hear(t, first); got != `{"acknowledged":3}` {
		t.Errorf("the client hears %q", got)
	}
	ack(t, s, more)
	ended := make(chan error, 1)
	go func() { ended <- s.Teardown(context.Background()) }()
	if got := hear(t, other); got != `{"acknowledged":1}` {
		t.Errorf("the other client hears %q", got)
	}
	for _, c := range []*library.Conn{first, other} {
		if err := stay(c); library.CloseStatus(err) != library.StatusGoingAway {
			t.Errorf("the connection ends with %v", err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSourceStops sends no acknowledgement of messages that are not committed.
func TestSourceStops(t *testing.T) {
	settings, addr := listening(t, "acknowledge", "message")
	s := source(t, settings)
	c := connected(t, addr)
	say(t, c, "1", "2")
	plugintest.Read(t, s, 2)
	go func() { _ = s.Teardown(context.Background()) }()
	if _, text, err := c.Read(t.Context()); library.CloseStatus(err) != library.StatusGoingAway {
		t.Errorf("the client hears %q, %v", text, err)
	}
}

// TestSourceDisconnectsLong closes the connection of a client that sends a message that is too long.
func TestSourceDisconnectsLong(t *testing.T) {
	settings, addr := listening(t, "message.maxBytes", "8")
	s := source(t, settings)
	c := connected(t, addr)
	say(t, c, "12345678", "123456789")
	if err := stay(c); library.CloseStatus(err) != library.StatusMessageTooBig ||
		!strings.Contains(err.Error(), "more than 8 bytes") {
		t.Errorf("the connection ends with %v", err)
	}
	if got := payloads(plugintest.Read(t, s, 1)); got[0] != "12345678" {
		t.Errorf("got %q", got)
	}
}

// TestSourceHostileClients closes the connection of a client that breaks the protocol, and serves others.
func TestSourceHostileClients(t *testing.T) {
	settings, addr := listening(t)
	s := source(t, settings)
	good := connected(t, addr)
	for name, frames := range map[string]string{
		"not masked":         "\x81\x01a",
		"long control frame": "\x89\xfe\x01\x00mask" + strings.Repeat("a", 256),
		"negative length":    "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xffmask",
		"unknown opcode":     "\x83\x80mask",
		"reserved bits":      "\xc1\x81maska",
		"bad close status":   "\x88\x82\x00\x00\x00\x00\x03\xed",
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"+frames)
		_ = c.SetReadDeadline(time.Now().Add(wait.Limit))
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 101 ") {
			t.Errorf("%s: the server sends %q, %v", name, answer, err)
		}
		_ = c.Close()
	}
	say(t, good, "still here")
	if got := payloads(plugintest.Read(t, s, 1)); got[0] != "still here" {
		t.Errorf("got %q", got)
	}
}

// TestSourceShortOfMemory does not read while the agent is short of memory.
func TestSourceShortOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 10 << 20
		ctx := (&plugintest.Memory{Bytes: all}).Context(t.Context())
		other := sdk.NewBuffer(ctx)
		if !other.Take(all) {
			t.Fatal("there is no memory")
		}
		s := &websocket.Source{}
		websocket.SetSourceNetwork(s, network.ServePipes(t, accepting(func(c *library.Conn, _ *http.Request) {
			say(t, c, "1")
			_ = stay(c)
		})).Dial)
		if err := s.Configure(ctx, withDefaults(s.Parameters(), map[string]string{"url": "ws://h"})); err != nil {
			t.Fatal(err)
		}
		if err := s.Open(ctx, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := *s.Progress().Records; n != 0 {
			t.Errorf("%d messages were read without memory", n)
		}
		other.Add(-all)
		time.Sleep(time.Second)
		if n := *s.Progress().Records; n != 1 {
			t.Errorf("%d messages were read with memory", n)
		}
		if err := s.Teardown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestSourceConnections keeps open connections at the limit, and closes new ones.
func TestSourceConnections(t *testing.T) {
	settings, addr := listening(t, "limit.connections", "2")
	s := source(t, settings)
	first, second := connected(t, addr), connected(t, addr)
	if _, _, err := dial(t, addr); err == nil {
		t.Error("a third connection is accepted")
	}
	say(t, first, "1")
	say(t, second, "2")
	plugintest.Read(t, s, 2)
	_ = first.Close(library.StatusNormalClosure, "")
	wait.For(t, "a connection instead of the one that has left", func() bool {
		_, _, err := dial(t, addr)
		return err == nil
	})
}

// TestSourceMemory bounds the messages that many clients send at the same time.
func TestSourceMemory(t *testing.T) {
	settings, addr := listening(t, "message.maxBytes", "1000", "limit.bytes", "3000")
	s := source(t, settings)
	var sending sync.WaitGroup
	for range 20 {
		c := connected(t, addr)
		sending.Go(func() { say(t, c, strings.Repeat("x", 900)) })
	}
	sending.Wait()
	wait.For(t, "messages", func() bool { return *s.Progress().Records >= 3 })
	for left := 20; left > 0; {
		if n := *s.Progress().Records; n > 3 {
			t.Errorf("%d messages of 900 bytes wait", n)
		}
		records := plugintest.Read(t, s, 1)
		left -= len(records)
		ack(t, s, records)
	}
}
