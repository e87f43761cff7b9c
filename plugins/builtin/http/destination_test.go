package http_test

import (
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func destination(t *testing.T, settings map[string]string) sdk.Destination {
	t.Helper()
	d := sdk.Standard(http.Connector()).NewDestination()
	if err := d.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

// payloadOnly adds settings that write only the payload of each record.
func payloadOnly(settings map[string]string) map[string]string {
	settings["sdk.record.format"] = "template"
	settings["sdk.record.format.options"] = `{{ printf "%s" .Payload.After }}`
	return settings
}

func records(payloads ...string) (all []record.Record) {
	for i, p := range payloads {
		all = append(all, record.Record{Position: fmt.Appendf(nil, "p%d", i), Operation: record.OperationCreate,
			Metadata: record.NewMetadata(map[string]string{record.KeySourceConnectorID: "pipe:src"}),
			After:    record.Raw([]byte(p))})
	}
	return all
}

// received is a request that a recorder has received.
type received struct {
	method, body string
	header       nethttp.Header
}

// recorder is a server that stores requests and answers with answer.
type recorder struct {
	*httptest.Server
	mu     sync.Mutex
	got    []received                                         // guarded by mu
	answer func(w nethttp.ResponseWriter, n int, body string) // answers request number n; nil: 200
}

func newRecorder(t testing.TB, answer func(w nethttp.ResponseWriter, n int, body string)) *recorder {
	r := &recorder{answer: answer}
	r.Server = httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, req *nethttp.Request) {
		var from io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			from, _ = gzip.NewReader(req.Body)
		}
		body, _ := io.ReadAll(from)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, received{req.Method, string(body), req.Header})
		if answer != nil {
			answer(w, len(r.got), string(body))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) bodies() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.got {
		all = append(all, g.body)
	}
	return all
}

// TestBodies sends records in bodies of every format.
func TestBodies(t *testing.T) {
	for _, c := range []struct {
		settings map[string]string
		want     []string
		kind     string
	}{
		{map[string]string{}, []string{`"a"`, `"b"`, `"c"`}, "application/json"},
		{map[string]string{"body.format": "json"}, []string{`["a","b","c"]`}, "application/json"},
		{map[string]string{"body.format": "json", "batch.maxRecords": "2"}, []string{`["a","b"]`, `["c"]`},
			"application/json"},
		{map[string]string{"body.format": "lines", "batch.maxBytes": "7"}, []string{"\"a\"\n\"b\"\n", "\"c\"\n"},
			"application/x-ndjson"},
		{map[string]string{"body.format": "lines", "body.contentType": "text/plain", "body.compression": "gzip"},
			[]string{"\"a\"\n\"b\"\n\"c\"\n"}, "text/plain"},
	} {
		r := newRecorder(t, nil)
		c.settings["url"] = r.URL
		c.settings["headers.X-Own"] = "value"
		c.settings["method"] = "PUT"
		d := destination(t, payloadOnly(c.settings))
		if n, err := d.Write(t.Context(), records(`"a"`, `"b"`, `"c"`)); n != 3 || err != nil {
			t.Errorf("%v: wrote %d: %v", c.settings, n, err)
		}
		if got := r.bodies(); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.settings, got, c.want)
		}
		if h := r.got[0].header; h.Get("Content-Type") != c.kind || h.Get("X-Own") != "value" ||
			r.got[0].method != "PUT" {
			t.Errorf("%v: got %s with %v", c.settings, r.got[0].method, h)
		}
	}
}

// TestRetries checks that a request is sent again after temporary failures, with the same key, and not earlier than the
// server requests.
func TestRetries(t *testing.T) {
	t.Parallel()
	r := newRecorder(t, func(w nethttp.ResponseWriter, n int, _ string) {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "100")
			w.WriteHeader(nethttp.StatusTooManyRequests)
		case 2:
			w.WriteHeader(nethttp.StatusServiceUnavailable)
		case 3:
			panic(nethttp.ErrAbortHandler) // no answer
		}
	})
	r.Config.SetKeepAlivesEnabled(false) // nothing waits for the network during a pause
	synctest.Test(t, func(t *testing.T) {
		d := destination(t, payloadOnly(map[string]string{"url": r.URL, "retry.timeout": "1h"}))
		began := time.Now()
		if n, err := d.Write(t.Context(), records("a", "b")); n != 2 || err != nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
		if took := time.Since(began); took < 100*time.Second || took > 110*time.Second {
			t.Errorf("it took %v, want the 100 s that the server asked for and the usual pauses", took)
		}
	})
	if got := r.bodies(); !slices.Equal(got, []string{"a", "a", "a", "a", "b"}) {
		t.Errorf("got %q", got)
	}
	keys := map[string]bool{}
	for _, g := range r.got[:4] {
		keys[g.header.Get("Idempotency-Key")] = true
	}
	if len(keys) != 1 || keys[r.got[4].header.Get("Idempotency-Key")] || keys[""] {
		t.Errorf("the keys of one request are %v, that of another %q", keys, r.got[4].header.Get("Idempotency-Key"))
	}
}

// TestGivesUp checks that a persistent failure of the server is not reported as the fault of a record, and that retries
// stop with the context.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	for _, status := range []int{500, 502, 429, 401, 403, 404, 301} {
		r := newRecorder(t, func(w nethttp.ResponseWriter, _ int, _ string) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no: topsecret")
		})
		d := destination(t, payloadOnly(map[string]string{"url": r.URL, "retry.timeout": "10ms",
			"auth.token": "topsecret", "body.format": "lines"}))
		n, err := d.Write(t.Context(), records("a", "b"))
		if n != 0 || err == nil || !builtintest.Lost(err) ||
			!strings.Contains(err.Error(), fmt.Sprint("the server responded with status ", status)) {
			t.Errorf("%d: wrote %d: %v", status, n, err)
		}
		if err != nil && strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%d: the error holds the token: %v", status, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := newRecorder(t, func(w nethttp.ResponseWriter, n int, _ string) {
		w.WriteHeader(nethttp.StatusInternalServerError)
		if n == 3 {
			cancel()
		}
	})
	d := destination(t, payloadOnly(map[string]string{"url": r.URL, "retry.timeout": "1h"}))
	if n, err := d.Write(ctx, records("a")); n != 0 || err == nil || ctx.Err() == nil {
		t.Errorf("wrote %d: %v", n, err)
	}
}

// TestRefusedRecord checks that the refused record of a request is found, and the records before it are written.
func TestRefusedRecord(t *testing.T) {
	var stored []string
	r := newRecorder(t, func(w nethttp.ResponseWriter, _ int, body string) {
		if strings.Contains(body, "bad") {
			w.WriteHeader(nethttp.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, "bad is bad")
			return
		}
		stored = append(stored, strings.Fields(body)...)
	})
	d := destination(t, payloadOnly(map[string]string{"url": r.URL, "body.format": "lines"}))
	all := records("a", "b", "c", "d", "bad", "e", "f")
	n, err := d.Write(t.Context(), all)
	if n != 4 || err == nil || builtintest.Lost(err) ||
		!strings.Contains(err.Error(), `422 Unprocessable Entity: "bad is bad"`) {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(t.Context(), all[5:]); n != 2 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if !slices.Equal(stored, []string{"a", "b", "c", "d", "e", "f"}) {
		t.Errorf("stored %q", stored)
	}
}

// TestKeys checks that records have the same keys after a restart, regardless of earlier refusals, and that records
// made from one record have different keys.
func TestKeys(t *testing.T) {
	keys := func(refuse string, writes ...int) (all []string) {
		r := newRecorder(t, func(w nethttp.ResponseWriter, _ int, body string) {
			if body == refuse {
				w.WriteHeader(nethttp.StatusBadRequest)
			}
		})
		d := destination(t, payloadOnly(map[string]string{"url": r.URL}))
		recs := records("a", "b", "b2", "c", "w1", "v1", "w2", "v2")
		recs[2].Position = recs[1].Position
		// The windows overlap.
		for i, window := range []string{"2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z",
			"2026-01-01T00:00:01Z"} {
			recs[4+i].Position = recs[i%2].Position
			recs[4+i].Metadata.Set(record.KeyWindowStart, window)
		}
		for i := 0; i < len(recs); {
			n, err := d.Write(t.Context(), recs[i:min(len(recs), i+writes[0])])
			if i += n; err != nil {
				i++
			}
		}
		for _, g := range r.got {
			all = append(all, g.header.Get("Idempotency-Key"))
		}
		return all
	}
	want := keys("", 8)
	if slices.Sort(want); len(slices.Compact(slices.Clone(want))) != 8 {
		t.Errorf("the keys %q are not different", want)
	}
	for _, refuse := range []string{"", "a", "b", "b2"} {
		for _, size := range []int{1, 2, 3, 4} {
			got := keys(refuse, size)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%d at a time, with %q refused: keys %q, want %q", size, refuse, got, want)
			}
		}
	}
}

// TestSigned checks the credentials and the signature of requests.
func TestSigned(t *testing.T) {
	r := newRecorder(t, nil)
	d := destination(t, payloadOnly(map[string]string{"url": r.URL, "auth.token": "word", "auth.hmac.secret": "key"}))
	if _, err := d.Write(t.Context(), records("body")); err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write([]byte("body"))
	h := r.got[0].header
	if h.Get("Authorization") != "Bearer word" ||
		h.Get("X-Hub-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("got %v", h)
	}
}

// TestContract checks the contract of connectors for polling with a cursor, and for sending in batches.
func TestContract(t *testing.T) {
	t.Parallel()
	stores := map[string]*recorder{}
	plugintest.Run(t, plugintest.Target{
		Connector: http.Connector(),
		Source: func(t testing.TB, n int) map[string]string {
			api := newAPI(t)
			api.add(n)
			return map[string]string{"url": api.URL, "cursor.field": "id", "cursor.param": "from",
				"records.path": "items", "pagination": "token",
				"pagination.path": "next", "pollingPeriod": "10ms"}
		},
		Destination: func(t testing.TB) map[string]string {
			r := newRecorder(t, nil)
			stores[r.URL] = r
			return map[string]string{"url": r.URL, "body.format": "json"}
		},
		Written: func(t testing.TB, settings map[string]string) (all []string) {
			for _, body := range stores[settings["url"]].bodies() {
				var batch []struct{ Payload struct{ After []byte } }
				if err := json.Unmarshal([]byte(body), &batch); err != nil {
					t.Fatal(err)
				}
				for _, r := range batch {
					all = append(all, string(r.Payload.After))
				}
			}
			return all
		},
	})
}
