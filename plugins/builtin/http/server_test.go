package http_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// source returns an opened source with these settings.
func source(t *testing.T, settings map[string]string, pos record.Position) *http.Source {
	t.Helper()
	return plugintest.OpenSource(t, &http.Source{}, settings, pos)
}

func listening(t *testing.T, settings map[string]string) (*http.Source, string) {
	t.Helper()
	settings["address"] = "127.0.0.1:" + strconv.Itoa(network.FreePort(t))
	return source(t, settings, nil), settings["address"]
}

// answer is the response to a request.
type answer struct {
	status int
	header nethttp.Header
	text   string
	err    error
}

func send(c *nethttp.Client, r *nethttp.Request) (a answer) {
	resp, err := c.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text), err}
}

func request(t *testing.T, addr, body string, headers ...string) *nethttp.Request {
	t.Helper()
	r, err := nethttp.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// post sends a request without waiting for the answer.
func post(t *testing.T, addr, body string, headers ...string) <-chan answer {
	r, answers := request(t, addr, body, headers...), make(chan answer, 1)
	go func() { answers <- send(nethttp.DefaultClient, r) }()
	return answers
}

func positions(records []record.Record) (all []record.Position) {
	for i := range records {
		all = append(all, records[i].Position)
	}
	return all
}

func ack(t *testing.T, s sdk.Source, records []record.Record) {
	t.Helper()
	if err := s.Ack(t.Context(), positions(records)); err != nil {
		t.Fatal(err)
	}
}

func payloads(t *testing.T, records []record.Record) string {
	t.Helper()
	var all []string
	for i := range records {
		if raw, ok := records[i].After.Raw(); ok {
			all = append(all, string(raw))
			continue
		}
		text, err := records[i].After.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, " ")
}

// stays checks that a request stays unanswered without an acknowledgement, while other requests are answered.
func stays(t *testing.T, addr string, answers <-chan answer) {
	t.Helper()
	r, _ := nethttp.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/", nil)
	if a := send(nethttp.DefaultClient, r); a.status != 405 {
		t.Errorf("GET is answered %d %v, want 405", a.status, a.err)
	}
	select {
	case a := <-answers:
		t.Fatalf("answered %d %s before the records are acknowledged", a.status, a.text)
	default:
	}
}

// TestServerAnswersAcknowledged checks that a request is answered when its last record is acknowledged.
func TestServerAnswersAcknowledged(t *testing.T) {
	s, addr := listening(t, map[string]string{"metadata.headers": "x-tenant"})
	answers := post(
		t, addr, "one\ntwo\n\nthree", "Content-Type", "application/x-ndjson", "X-Tenant", "acme", "X-Tenant", "two",
	)
	records := plugintest.Read(t, s, 3)
	if got := payloads(t, records); got != "one two three" {
		t.Errorf("got %q", got)
	}
	if m := records[2].Metadata; m.Get("http.header.X-Tenant") != "acme" || m.Get("http.header.X-Tenant[1]") != "two" ||
		m.Get("http.path") != "/" || m.Get("http.method") != "POST" ||
		m.Get("http.contentType") != "application/x-ndjson" {
		t.Errorf("metadata is %v", m)
	}
	stays(t, addr, answers)
	ack(t, s, records[:2])
	stays(t, addr, answers)
	if n := s.Progress().Records; n == nil || *n != 1 {
		t.Errorf("progress is %+v, want 1 record behind", s.Progress())
	}
	ack(t, s, records[2:])
	if a := <-answers; a.status != 204 || a.err != nil {
		t.Errorf("answered %d %v, want 204", a.status, a.err)
	}
}

// TestServerEnds checks that requests with unacknowledged records are answered 503 when the source ends.
func TestServerEnds(t *testing.T) {
	s, addr := listening(t, map[string]string{})
	first, second := post(t, addr, "1"), post(t, addr, "2")
	records := plugintest.Read(t, s, 2)
	ack(t, s, records[:1])
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
	a, b := <-first, <-second
	if a.status+b.status != 204+503 {
		t.Errorf("answered %+v and %+v, want 204 and 503", a, b)
	}
	for _, one := range []answer{a, b} {
		if one.status == 503 && one.header.Get("Retry-After") == "" {
			t.Error("503 comes without Retry-After")
		}
	}
	if a := <-post(t, addr, "3"); a.err == nil {
		t.Errorf("answered %d after the end", a.status)
	}
}

// TestServerTimeout checks that a request is answered 503 after the timeout, and that its records are no longer read.
func TestServerTimeout(t *testing.T) {
	s, addr := listening(t, map[string]string{"ack.timeout": "50ms"})
	if a := <-post(t, addr, "late"); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("answered %d with Retry-After %q, want 503", a.status, a.header.Get("Retry-After"))
	}
	n := 0
	wait.For(t, "a request is answered in time", func() bool {
		n++
		text := fmt.Sprint("again ", n)
		answers := post(t, addr, text)
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan []record.Record, 1)
		go func() {
			records, _ := s.Read(ctx)
			if len(records) > 0 {
				if err := s.Ack(t.Context(), positions(records)); err != nil {
					t.Error(err)
				}
			}
			read <- records
		}()
		a := <-answers
		cancel()
		got := payloads(t, <-read)
		if got != text && (got != "" || a.status == 204) {
			t.Errorf("answered %d, read %q, want only what is waited for", a.status, got)
		}
		return a.status == 204
	})
}

// TestServerGone checks that the unread records of a disconnected sender are dropped.
func TestServerGone(t *testing.T) {
	s, addr := listening(t, map[string]string{})
	ctx, cancel := context.WithCancel(t.Context())
	r := request(t, addr, "gone").WithContext(ctx)
	done := make(chan struct{})
	go func() { defer close(done); send(nethttp.DefaultClient, r) }()
	behind := func(n int64) func() bool { return func() bool { return *s.Progress().Records == n } }
	wait.For(t, "the request waits", behind(1))
	cancel()
	<-done
	wait.For(t, "its record is dropped", behind(0))
}

// TestServerBounds checks the limits for the size of a body, pending requests, pending bytes, and requests per second.
func TestServerBounds(t *testing.T) {
	t.Parallel()
	s, addr := listening(t, map[string]string{"body.maxBytes": "10", "limit.requests": "2", "limit.bytes": "15"})
	for _, r := range []*nethttp.Request{
		request(t, addr, "eleven byte"),
		chunked(request(t, addr, ""), "eleven byte"),
		request(t, addr, zip(t, strings.Repeat("0", 1<<20)), "Content-Encoding", "gzip"),
	} {
		if a := send(nethttp.DefaultClient, r); a.status != 413 {
			t.Errorf("a body that is too large is answered %d %v, want 413", a.status, a.err)
		}
	}
	first := post(t, addr, "ten bytes!")
	records := plugintest.Read(t, s, 1)
	if a := <-post(t, addr, "sixsix"); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("more bytes than may wait are answered %d, want 503", a.status)
	}
	second := post(t, addr, "five5")
	records = append(records, plugintest.Read(t, s, 1)...)
	if a := <-post(t, addr, ""); a.status != 503 {
		t.Errorf("a request too many is answered %d, want 503", a.status)
	}
	ack(t, s, records)
	if a, b := <-first, <-second; a.status != 204 || b.status != 204 {
		t.Errorf("answered %d and %d, want 204", a.status, b.status)
	}
	if a := <-post(t, addr, ""); a.status != 204 {
		t.Errorf("a request without a record is answered %d, want 204", a.status)
	}
	_, limited := listening(t, map[string]string{"limit.requestsPerSecond": "0.001"})
	<-post(t, limited, "")
	if a := <-post(t, limited, ""); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("a request too soon is answered %d, want 429", a.status)
	}
}

func chunked(r *nethttp.Request, body string) *nethttp.Request {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
	return r
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestServerBodies creates records from bodies of every format.
func TestServerBodies(t *testing.T) {
	s, addr := listening(t, map[string]string{})
	for _, c := range []struct{ body, kind, encoding, want string }{
		{"a\nb", "text/plain", "", "a\nb"},
		{"a\r\nb\n", "application/jsonl", "", "a b"},
		{`[{"n":1},{"n":2},3]`, "application/json; charset=utf-8", "", `{"n":1} {"n":2} 3`},
		{`{"n":12345678901234567}`, "application/vnd.x+json", "", `{"n":12345678901234567}`},
		{zip(t, "packed"), "", "gzip", "packed"},
	} {
		answers := post(t, addr, c.body, "Content-Type", c.kind, "Content-Encoding", c.encoding)
		records := plugintest.Read(t, s, 1)
		if got := payloads(t, records); got != c.want {
			t.Errorf("%q as %s: got %q, want %q", c.body, c.kind, got, c.want)
		}
		ack(t, s, records)
		if a := <-answers; a.status != 204 {
			t.Errorf("%s: answered %d %s", c.kind, a.status, a.text)
		}
	}
	for want, r := range map[int]*nethttp.Request{
		400: request(t, addr, "{", "Content-Type", "application/json"),
		415: request(t, addr, "x", "Content-Encoding", "br"),
	} {
		if a := send(nethttp.DefaultClient, r); a.status != want {
			t.Errorf("answered %d %s, want %d", a.status, a.text, want)
		}
	}
}

// TestServerCredentials checks that only requests with valid credentials are accepted.
func TestServerCredentials(t *testing.T) {
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write([]byte("body"))
	signature := hex.EncodeToString(mac.Sum(nil))
	for _, c := range []struct {
		settings map[string]string
		good     []string
		bad      [][]string
	}{
		{map[string]string{"auth.token": "word"}, []string{"Authorization", "Bearer word"},
			[][]string{nil, {"Authorization", "Bearer wor"}, {"Authorization", "word"}}},
		{map[string]string{"auth.username": "u", "auth.password": "p"}, []string{"Authorization", "Basic dTpw"},
			[][]string{nil, {"Authorization", "Basic dTpx"}}},
		{map[string]string{"auth.hmac.secret": "key"}, []string{"X-Hub-Signature-256", "sha256=" + signature},
			[][]string{nil, {"X-Hub-Signature-256", "sha256=00"},
				{"X-Hub-Signature-256", "sha256=" + strings.Repeat("0", 64)}}},
		{map[string]string{"auth.hmac.secret": "key", "auth.hmac.header": "X-Sig"}, []string{"X-Sig", signature},
			[][]string{{"X-Hub-Signature-256", signature}}},
	} {
		s, addr := listening(t, c.settings)
		for _, bad := range c.bad {
			if a := <-post(t, addr, "body", bad...); a.status != 401 {
				t.Errorf("%v with %q: answered %d, want 401", c.settings, bad, a.status)
			}
		}
		answers := post(t, addr, "body", c.good...)
		ack(t, s, plugintest.Read(t, s, 1))
		if a := <-answers; a.status != 204 {
			t.Errorf("%v with %q: answered %d %s", c.settings, c.good, a.status, a.text)
		}
	}
}

// TestSettings checks the errors for settings that contradict each other.
func TestSettings(t *testing.T) {
	cert, key, _ := network.Certificate(t)
	for want, settings := range map[string]map[string]string{
		`"url": cannot be set`:        {"address": "127.0.0.1:1", "url": "http://a"},
		`"address": can be reached`:   {"address": ":1"},
		`"address": must be`:          {"address": "8080"},
		`"tls.ca": needs tls.cert`:    {"address": ":1", "tls.ca": cert},
		`"tls.key": is required`:      {"address": "127.0.0.1:1", "tls.cert": cert},
		`"tls.cert": cannot be used`:  {"address": "127.0.0.1:1", "tls.cert": cert, "tls.key": cert},
		`"tls.cert": is required`:     {"url": "http://a", "tls.key": key},
		`"tls.ca": must be`:           {"url": "http://a", "tls.ca": "/etc/ca.pem"},
		`"url": must be a URL`:        {"url": "a.example.com"},
		`"cursor.param": is required`: {"url": "http://a", "cursor.field": "id"},
		`"cursor.param": needs`:       {"url": "http://a", "cursor.param": "id"},
		`"cursor.path": cannot`: {"url": "http://a", "cursor.field": "id", "cursor.path": "id",
			"cursor.param": "x"},
		`"pagination.path": is required`:  {"url": "http://a", "pagination": "token"},
		`"pagination.param": is required`: {"url": "http://a", "pagination": "page"},
	} {
		err := (&http.Source{}).Configure(t.Context(), settings)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", settings, err, want)
		}
	}
	for _, good := range []map[string]string{
		{}, {"address": ":1", "auth.token": "x"}, {"address": ":1", "auth.allowAnonymous": "true"},
		{"address": "[::1]:1"}, {"address": ":1", "tls.cert": cert, "tls.key": key, "tls.ca": cert},
	} {
		if err := (&http.Source{}).Configure(t.Context(), good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
}

// TestServerPosition checks that the source resumes only from its own positions.
func TestServerPosition(t *testing.T) {
	s, addr := listening(t, map[string]string{})
	post(t, addr, "x")
	pos := plugintest.Read(t, s, 1)[0].Position
	if err := s.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	source(t, map[string]string{"address": addr}, pos)
	again := &http.Source{}
	_ = again.Configure(t.Context(), map[string]string{"address": "127.0.0.1:0"})
	if err := again.Open(t.Context(), record.Position("17")); err == nil ||
		!strings.Contains(err.Error(), `cannot resume at position "17"`) {
		t.Errorf("got %v", err)
	}
}

// Text is decoded with the encoding that the sender names. Undecodable text is refused; no character is replaced.
func TestServerDecodesText(t *testing.T) {
	s, addr := listening(t, map[string]string{})
	for _, test := range []struct{ contentType, body, want string }{
		{"application/json; charset=iso-8859-1", "{\"n\":\"Zo\xeb\"}", `{"n":"Zoë"}`},
		{"application/json", "\xef\xbb\xbf{\"n\":\"Zoë\"}", `{"n":"Zoë"}`},
		{"application/json; charset=utf-16le", "{\x00\"\x00\xeb\x00\"\x00:\x001\x00}\x00", `{"ë":1}`},
		{"application/x-ndjson; charset=windows-1252", "{\"n\":\"\x80\"}\n", `{"n":"€"}`},
		{"text/plain; charset=iso-8859-1", "Zo\xeb", "Zo\xeb"}, // bytes, unchanged
		{"application/json", "{\"n\":\"Zo\xeb\"}", "415"},
		{"application/json; charset=shift_jis", "{}", "415"},
		{"application/json; charset=utf-16", "{}a", "415"},
		{"application/json", `{"n":"\ud83d"}`, "400"},
	} {
		answers := post(t, addr, test.body, "Content-Type", test.contentType)
		if _, err := strconv.Atoi(test.want); err == nil {
			if a := <-answers; strconv.Itoa(a.status) != test.want {
				t.Errorf("%s %q: answered %d %s", test.contentType, test.body, a.status, a.text)
			}
			continue
		}
		records := plugintest.Read(t, s, 1)
		text, err := records[0].After.AppendJSON(nil)
		if b, raw := records[0].After.Raw(); raw {
			text = b
		}
		if err != nil || string(text) != test.want {
			t.Errorf("%s %q: got %s, %v; want %s", test.contentType, test.body, text, err, test.want)
		}
		ack(t, s, records)
		<-answers
	}
}
