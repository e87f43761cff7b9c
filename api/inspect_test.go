package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// session is a client of the inspector that acts only on command of the test.
type session struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

const handshake = "GET /v1/connectors/a:gen/inspect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: " +
	"websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// open opens a session on a:gen. Further frames may come with the request.
func open(t testing.TB, url, further string) *session {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	l := &session{t, conn, bufio.NewReader(conn)}
	l.send(handshake + further)
	l.answered(http.StatusSwitchingProtocols)
	return l
}

// openLines opens a session on a:gen that receives lines.
func openLines(t testing.TB, url string) *session {
	t.Helper()
	l := &session{t, hold(t, url, "GET /v1/connectors/a:gen/inspect HTTP/1.1\r\nHost: localhost\r\n\r\n", 1, false)[0],
		nil}
	_ = l.SetDeadline(time.Now().Add(wait.Limit))
	l.in = bufio.NewReader(l.Conn)
	l.in = bufio.NewReader(l.answered(http.StatusOK))
	return l
}

// answered returns the body of the answer to the request of the session.
func (l *session) answered(status int) io.Reader {
	l.t.Helper()
	response, err := http.ReadResponse(l.in, nil)
	if err != nil || response.StatusCode != status {
		l.t.Fatalf("answered with %v, error %v", response, err)
	}
	return response.Body
}

func (l *session) send(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l, text); err != nil {
		l.t.Fatal(err)
	}
}

// frame returns the next frame of the server, its first byte and its payload.
func (l *session) frame() (byte, string, error) {
	var head [2]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return 0, "", err
	}
	size := uint64(head[1])
	switch long := make([]byte, 8); size {
	case 126:
		_, _ = io.ReadFull(l.in, long[6:]) // missing bytes are detected below
		size = binary.BigEndian.Uint64(long)
	case 127:
		_, _ = io.ReadFull(l.in, long)
		size = binary.BigEndian.Uint64(long)
	}
	payload := make([]byte, size)
	_, err := io.ReadFull(l.in, payload)
	return head[0], string(payload), err
}

// masked returns a frame as clients send it.
func masked(first byte, payload string) string {
	frame := append([]byte{first, 0x80 | byte(len(payload))}, "mask"...)
	for i := range len(payload) {
		frame = append(frame, payload[i]^"mask"[i%4])
	}
	return string(frame)
}

// inspectable returns a server with a running pipeline a.
func inspectable(t testing.TB, limits ...func(*api.Server)) (*world, *api.Server, *client.Client) {
	t.Helper()
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	s := newServer(w)
	for _, set := range limits {
		set(s)
	}
	c, _ := serve(t, s)
	return w, s, c
}

// The library speaks the protocol; these are the answers that the inspector decides about.
func TestWhatInspectorsSend(t *testing.T) {
	t.Parallel()
	_, s, c := inspectable(t)
	var clients sync.WaitGroup
	status := func(code uint16, reason string) string {
		return string(binary.BigEndian.AppendUint16(nil, code)) + reason
	}
	for _, test := range []struct {
		what, sent string
		first      byte // of the answer
		payload    string
		ends       bool
	}{
		{"ping", masked(0x89, "hello"), 0x8a, "hello", false},
		{"goodbye", masked(0x88, status(1000, "done")), 0x88, status(1000, "done"), true},
		{"a text", masked(0x81, "hello"), 0x88, status(1008, "unexpected data message"), true},
		{"the beginning of a text", "\x81\xfe\x10\x00mask", 0x88, status(1008, "unexpected data message"), true},
	} {
		for with, further := range map[string]string{"with the request": test.sent, "later": ""} {
			clients.Go(func() {
				l := open(t, c.URL, further)
				defer l.Close()
				if further == "" {
					l.send(test.sent)
				}
				first, payload, err := l.frame()
				if first != test.first || payload != test.payload || err != nil {
					t.Errorf("%s %s: answered with %x %q, error %v", test.what, with, first, payload, err)
				}
				if !test.ends {
					return
				}
				if _, err := l.in.ReadByte(); err == nil {
					t.Errorf("%s %s: more afterwards", test.what, with)
				}
			})
		}
	}
	clients.Wait()
	wait.For(t, "all sessions end", func() bool { return len(s.Stats().Sessions) == 0 })
}

// seeing inspects a:gen until stop is called, which returns the number of records seen, and the number dropped.
func seeing(
	t *testing.T, s *api.Server, c *client.Client, filters []string, options ...client.Option,
) (seen func() int, stop func() (dropped uint64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	before := s.Stats()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Inspect(ctx, "a:gen", filters, func(m client.Message) error {
			if m.Result != nil {
				n.Add(1)
			}
			return nil
		}, options...)
	}()
	wait.For(t, "the session is open", func() bool { return s.Stats().Sessions["a:gen"] == before.Sessions["a:gen"]+1 })
	return func() int { return int(n.Load()) }, func() uint64 {
		open := s.Stats().Sessions["a:gen"]
		cancel()
		<-ended
		wait.For(t, "the session ends", func() bool { return s.Stats().Sessions["a:gen"] == open-1 })
		return s.Stats().Dropped["a:gen"] - before.Dropped["a:gen"]
	}
}

// many returns n records. The last record of each run of every records is marked.
func many(n, every int) []record.Record {
	all := make([]record.Record, n)
	for i := range all {
		all[i] = rec(i)
		if i%every == every-1 {
			all[i].Metadata = record.NewMetadata(map[string]string{"marked": "yes"})
		}
	}
	return all
}

// A filter shows all matching records, however rare, and however many others pass; records that do not match are not
// counted as dropped.
func TestFiltersComeFirst(t *testing.T) {
	t.Parallel()
	w, s, c := inspectable(t, api.FilterBurst(time.Hour))
	filter := []string{"metadata.marked=yes"}
	seen, stop := seeing(t, s, c, filter)
	for range 20 {
		w.pass("a:gen", many(1000, 1000)...)
	}
	wait.For(t, "all marked records are seen", func() bool { return seen() == 20 })
	if dropped := stop(); dropped != 0 {
		t.Errorf("%d records were left out that no session selected", dropped)
	}
	encode := func(records []record.Record) *record.Batch {
		wire, err := record.NewBatch(records).AppendWire(nil, 0, len(records))
		if err != nil {
			t.Fatal(err)
		}
		b, err := record.NewEncodedBatch(wire)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seen, stop = seeing(t, s, c, append(filter, "operation=create"))
	b := encode(many(1000, 1000))
	w.passBatch("a:gen", b)
	wait.For(t, "an encoded record is seen", func() bool { return seen() == 1 })
	if _, decoded := b.Decoded(); decoded {
		t.Error("inspecting decoded the batch of the pipeline")
	}
	for range 10 {
		w.passBatch("a:gen", encode(many(2000, 2)))
	}
	if dropped := stop(); dropped == 0 || dropped+uint64(seen()) > 10_001 {
		t.Errorf("%d seen and %d left out of 10,001", seen(), dropped)
	}
}

// A session with a filter does not see the matches of other filters.
func TestFiltersOfSeveralSessions(t *testing.T) {
	t.Parallel()
	w, s, c := inspectable(t, api.FilterBurst(time.Hour))
	all, stopAll := seeing(t, s, c, nil)
	marked, stopMarked := seeing(t, s, c, []string{"metadata.marked=yes"})
	again, stopAgain := seeing(t, s, c, []string{"metadata.marked=yes", "metadata.marked=yes"})
	none, stopNone := seeing(t, s, c, []string{"operation=delete"})
	w.pass("a:gen", many(10, 5)...)
	wait.For(t, "every session sees", func() bool { return all() == 10 && marked() == 2 && again() == 2 })
	stopMarked()
	w.pass("a:gen", many(10, 2)...)
	wait.For(t, "the rest goes on", func() bool { return all() == 20 && again() == 7 })
	if none() != 0 || marked() != 2 || stopNone()+stopAgain()+stopAll() != 0 {
		t.Errorf("%d records without the operation, %d after the end, %d left out", none(), marked(),
			s.Stats().Dropped["a:gen"])
	}
}

// Records left out by a rate limit of the session are not counted as dropped.
func TestRatesDropNothing(t *testing.T) {
	t.Parallel()
	w, s, c := inspectable(t)
	seen, stop := seeing(t, s, c, nil, client.Query("rate", "20"))
	wait.For(t, "four are seen", func() bool {
		w.pass("a:gen", many(1000, 1)...)
		return seen() >= 4
	})
	stop()
	// The next record is due after wait.Limit.
	seen, stop = seeing(t, s, c, nil, client.Query("rate", "0.002"))
	for range 4 {
		w.pass("a:gen", many(1000, 1)...)
		wait.For(t, "one is seen", func() bool { return seen() > 0 })
	}
	if dropped := stop(); dropped > 0 || seen() != 1 {
		t.Errorf("%d seen, %d left out, of one that was to be seen", seen(), dropped)
	}
}

// Records that filters had no time to inspect count as dropped, because they may match.
func TestFiltersWithoutTime(t *testing.T) {
	t.Parallel()
	w, s, c := inspectable(t, api.FilterBurst(-1))
	seen, stop := seeing(t, s, c, []string{"metadata.marked=yes"})
	w.pass("a:gen", many(1000, 10)...)
	if dropped := stop(); dropped != 1000 || seen() != 0 {
		t.Errorf("%d seen, %d left out", seen(), dropped)
	}
}

// Sessions end with their connector, but not while its file may bring it back.
func TestInspectorsOfDeletedConnectors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fromAPI(pipelineOf("a", spec.StatusStopped))
	s := newServer(w)
	c, _ := serve(t, s)
	l := open(t, c.URL, "")
	withdraw := func(purge bool) {
		if err := w.ApplyIf(t.Context(), &spec.Changes{Withdraw: []spec.Withdraw{{ID: "a", Purge: purge}}},
			nil); err != nil {
			t.Fatal(err)
		}
	}
	withdraw(false)
	w.pass("a:gen", rec(1))
	if _, text, err := l.frame(); err != nil || !strings.Contains(text, "result") {
		t.Errorf("while it is withdrawn: %q, error %v", text, err)
	}
	withdraw(true)
	first, payload, err := l.frame()
	if first != 0x88 || !strings.HasSuffix(payload, "the connector was deleted") || err != nil {
		t.Errorf("%x %q, error %v", first, payload, err)
	}
	l.send(masked(0x88, payload[:2]))
	if more, err := io.ReadAll(l.in); len(more) > 0 || err != nil { // browsers report a second close frame as an error
		t.Errorf("%x after the close frame was answered, error %v", more, err)
	}
	wait.For(t, "the session ends", func() bool { return len(s.Stats().Sessions) == 0 && w.watched("a:gen") == 0 })
}

// TestCountsOfDeletedConnectors drops records and deletes their connector: its count disappears, and the count of
// another connector stays.
func TestCountsOfDeletedConnectors(t *testing.T) {
	t.Parallel()
	w, s, c := inspectable(t, api.FilterBurst(-1))
	w.fromAPI(pipelineOf("b", spec.StatusStopped))
	for _, id := range []string{"a:gen", "b:gen"} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Inspect(ctx, id, []string{"operation=delete"}, func(client.Message) error { return nil })
		}()
		wait.For(t, "the session is open", func() bool { return s.Stats().Sessions[id] == 1 })
		w.pass(id, many(10, 1)...)
		cancel()
		<-ended
		wait.For(t, "the session ends", func() bool { return s.Stats().Sessions[id] == 0 })
	}
	if got := s.Stats().Dropped; got["a:gen"] != 10 || got["b:gen"] != 10 {
		t.Errorf("dropped %v, want 10 each", got)
	}
	if err := w.ApplyIf(t.Context(), &spec.Changes{Withdraw: []spec.Withdraw{{ID: "b", Purge: true}}},
		nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().Dropped; got["a:gen"] != 10 || len(got) != 1 {
		t.Errorf("dropped %v after b was deleted, want those of a", got)
	}
}

// Clients that do not answer pings are disconnected, others are not.
func TestInspectorsShowSignsOfLife(t *testing.T) {
	t.Parallel()
	_, s, c := inspectable(t, api.ShortSessionTimeouts(3*time.Second, 100*time.Millisecond))
	open(t, c.URL, "")
	alive := open(t, c.URL, "")
	wait.For(t, "both sessions are open", func() bool { return s.Stats().Sessions["a:gen"] == 2 })
	for s.Stats().Sessions["a:gen"] == 2 {
		first, payload, err := alive.frame()
		if first != 0x89 || err != nil {
			t.Fatalf("%x %q instead of a ping, error %v", first, payload, err)
		}
		alive.send(masked(0x8a, payload))
	}
	if first, _, err := alive.frame(); first != 0x89 || err != nil {
		t.Errorf("the one that answers: %x, error %v", first, err)
	}
}

// Records of any size arrive unchanged, over WebSocket and as lines.
func TestInspectSizes(t *testing.T) {
	w, s, c := inspectable(t)
	socket := open(t, c.URL, "")
	response, err := http.Get(c.URL + "/v1/connectors/a:gen/inspect")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	wait.For(t, "both sessions are open", func() bool { return s.Stats().Sessions["a:gen"] == 2 })
	sized := func(metadata, payload int) record.Record {
		return record.Record{Position: record.Position("p"), After: record.Raw(bytes.Repeat([]byte("x"), payload)),
			Metadata: record.NewMetadata(map[string]string{"m": strings.Repeat("m", metadata)})}
	}
	shortest := len(sees(t, w, socket, lines, sized(0, 0)))
	for _, length := range []int{1<<16 - 1, 1 << 16, 1<<16 + 1} { // where the header changes
		if got := len(sees(t, w, socket, lines, sized(length-shortest, 0))); got != length {
			t.Errorf("%d bytes instead of %d", got, length)
		}
	}
	sees(t, w, socket, lines, sized(1, 3<<20))
}

// sees returns the messages that both clients receive for a record.
func sees(t *testing.T, w *world, socket *session, lines *bufio.Reader, r record.Record) string {
	t.Helper()
	w.pass("a:gen", r)
	_, text, err := socket.frame()
	line, lerr := lines.ReadString('\n')
	if err != nil || lerr != nil || !json.Valid([]byte(text)) || !strings.HasPrefix(text, `{"result"`) ||
		line != text+"\n" {
		t.Fatalf("%.80s and %.80s, errors %v, %v", text, line, err, lerr)
	}
	return text
}

// Clients that read nothing delay no others, and are disconnected.
func TestInspectorsThatHang(t *testing.T) {
	t.Parallel()
	w, s, c := inspectable(t, api.ShortSessionTimeouts(time.Second, time.Hour))
	open(t, c.URL, "")
	openLines(t, c.URL)
	reads := open(t, c.URL, "")
	w.pass("a:gen", record.Record{Position: record.Position("p"), After: record.Raw(bytes.Repeat([]byte("x"), 4<<20))})
	stop := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				w.pass("a:gen", rec(1))
			case <-stop:
				return
			}
		}
	})
	for results := 0; results < 3; {
		_, text, err := reads.frame()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(text, `{"result"`) {
			results++
		}
	}
	close(stop)
	passing.Wait()
	wait.For(t, "the others are left", func() bool { return s.Stats().Sessions["a:gen"] == 1 })
}

// Sessions do not count towards the limit of connections.
func TestManyInspectors(t *testing.T) {
	w, s, c := inspectable(t)
	const each = api.MaxConns + 10
	var sockets, lines []*session
	for range each {
		sockets, lines = append(sockets, open(t, c.URL, "")), append(lines, openLines(t, c.URL))
	}
	wait.For(t, "the sessions are open", func() bool { return s.Stats().Sessions["a:gen"] == 2*each })
	w.pass("a:gen", rec(1))
	for i := range each {
		_, text, err := sockets[i].frame()
		line, lerr := lines[i].in.ReadString('\n')
		if err != nil || lerr != nil || !strings.Contains(text, `"result"`) || line != text+"\n" {
			t.Fatalf("%s and %s, errors %v, %v", text, line, err, lerr)
		}
	}
}

// memory counts what the inspector holds.
type memory struct{ atomic.Int64 }

func (m *memory) Take(n int) bool { m.Add(n); return true }

func (m *memory) Add(n int) { m.Int64.Add(int64(n)) }

// Records are held until all sessions have them or have left, and all memory is given back.
func TestMemoryOfInspectors(t *testing.T) {
	t.Parallel()
	var held memory
	w, s, c := inspectable(t, func(s *api.Server) { s.Memory = &held })
	socket, lines := open(t, c.URL, ""), openLines(t, c.URL)
	wait.For(t, "the sessions are open", func() bool { return s.Stats().Sessions["a:gen"] == 2 })
	open := held.Load()
	if open == 0 {
		t.Error("sessions are not counted")
	}
	sees(t, w, socket, lines.in, rec(1))
	wait.For(t, "the record is released", func() bool { return held.Load() == open })
	const size = 8 << 20 // more than the buffers of a connection
	w.pass("a:gen", record.Record{Position: record.Position("p"), After: record.Raw(bytes.Repeat([]byte("x"), size))})
	if _, _, err := socket.frame(); err != nil {
		t.Fatal(err)
	}
	if now := held.Load(); now < open+size {
		t.Errorf("%d bytes are held while a session takes a record of %d", now-open, size)
	}
	lines.Close()
	wait.For(t, "the record is released", func() bool { return held.Load() == open/2 })
	socket.Close()
	wait.For(t, "all is released", func() bool { return held.Load() == 0 })
}

// The server ends at once whatever its clients do.
func TestHangingInspectorsEndWithTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	s := newServer(w)
	api.ShortSessionTimeouts(time.Hour, time.Hour)(s)
	c, stop := serve(t, s)
	hanging, lines, idle := open(t, c.URL, ""), openLines(t, c.URL), open(t, c.URL, "")
	w.pass("a:gen", record.Record{Position: record.Position("p"), After: record.Raw(bytes.Repeat([]byte("x"), 8<<20))})
	if _, _, err := idle.frame(); err != nil {
		t.Fatal(err)
	}
	// Waiting for the clients would take an hour.
	stop()
	const goingAway = "\x03\xe9" // 1001
	if first, payload, err := idle.frame(); first != 0x88 || !strings.HasPrefix(payload, goingAway) || err != nil {
		t.Errorf("%x %q, error %v", first, payload, err)
	}
	for _, other := range []*session{hanging, lines} {
		_, err := io.Copy(io.Discard, other.in)
		if err, ok := err.(net.Error); ok && err.Timeout() {
			t.Errorf("one that hangs: %v", err)
		}
	}
	if n := len(s.Stats().Sessions); n != 0 {
		t.Errorf("%d connectors are inspected", n)
	}
}

func TestInspectWithoutAHandshake(t *testing.T) {
	w, s, c := inspectable(t)
	request, err := http.NewRequest(http.MethodGet, c.URL+"/v1/connectors/a:gen/inspect", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "websocket")
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusBadRequest {
		t.Fatalf("a handshake without a version: %v, error %v", response, err)
	}
	response.Body.Close()
	wait.For(t, "the session ends", func() bool { return s.Stats().Sessions["a:gen"] == 0 && w.watched("a:gen") == 0 })
}
