package processor_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor/enrich"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// manual is a clock that moves only when it is set, or in Sleep.
type manual struct{ now time.Time }

func (m *manual) Now() time.Time { return m.now }
func (m *manual) Sleep(_ context.Context, d time.Duration) error {
	m.now = m.now.Add(d)
	return nil
}

func open(t *testing.T, name string, settings map[string]string) (sdk.Processor, context.Context, *manual) {
	t.Helper()
	clock := &manual{now: time.Unix(1e9, 0)}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Clock: clock, Logger: sdk.Logger(t.Context())})
	for _, plugin := range enrich.Plugins() {
		if plugin.Name == name {
			p := plugin.New()
			if err := p.Configure(ctx, p.Parameters().ApplyDefaults(settings)); err != nil {
				t.Fatal(err)
			}
			if err := p.Open(ctx); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.Teardown(ctx); err != nil {
					t.Error(err)
				}
			})
			return p, ctx, clock
		}
	}
	t.Fatalf("there is no processor %s", name)
	return nil, nil, nil
}

// enriched returns the payload of a record with this id, or the reason why it does not pass.
func enriched(t *testing.T, p sdk.Processor, ctx context.Context, id any) any {
	t.Helper()
	records := []record.Record{{After: record.Structured(map[string]any{"id": id})}}
	b := sdk.NewProcessBatch(1, records, nil)
	if err := p.Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	if f := b.Fates(); f != nil && f[0].Kind == sdk.Filtered {
		return "filtered"
	} else if f != nil && f[0].Kind == sdk.Refused {
		return f[0].Err.Error()
	}
	m, _ := records[0].After.Structured()
	return m
}

func want(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFileIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.csv")
	write := func(text string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("id,name,city\n1,Ann,Bern\n", time.Hour)
	p, ctx, clock := open(t, "enrich.file",
		map[string]string{"path": path, "key": ".Payload.After.id", "target": ".Payload.After.who", "columns": "name"})
	want(t, enriched(t, p, ctx, 1.0), map[string]any{"id": 1.0, "who": map[string]any{"name": "Ann"}})
	want(t, enriched(t, p, ctx, 2.0), map[string]any{"id": 2.0})

	write("id,name,city\n1,Bob,Bern\n", 0)
	want(t, enriched(t, p, ctx, 1.0), map[string]any{"id": 1.0, "who": map[string]any{"name": "Ann"}}) // no check yet
	clock.now = clock.now.Add(2 * time.Second)
	want(t, enriched(t, p, ctx, 1.0), map[string]any{"id": 1.0, "who": map[string]any{"name": "Bob"}})

	write("broken\n\"", time.Minute)
	clock.now = clock.now.Add(2 * time.Second)
	want(t, enriched(t, p, ctx, 1.0), map[string]any{"id": 1.0, "who": map[string]any{"name": "Bob"}})
}

func TestFileTables(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, ctx, _ := open(t, "enrich.file", map[string]string{"path": path("t.json", `[{"id":7,"tags":["a"]}]`),
		"column": "id", "key": ".Payload.After.id", "missing": "refuse"})
	want(t, enriched(t, p, ctx, int64(7)), map[string]any{"id": int64(7), "tags": []any{"a"}})
	want(t, enriched(t, p, ctx, "8"), `there is nothing for "8"`)
	p, ctx, _ = open(t, "enrich.file", map[string]string{"path": path("t.csv", "name,id\nAnn,1\n"), "column": "id",
		"key": ".Payload.After.id", "missing": "filter"})
	want(t, enriched(t, p, ctx, "1"), map[string]any{"id": "1", "name": "Ann"})
	want(t, enriched(t, p, ctx, "2"), "filtered")
}

// Two columns with the same name are an error, unless the settings use only other columns.
func TestColumnsOfOneName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte("id,name,city,name\n1,Ann,Bern,Bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for columns, fails := range map[string]bool{"": true, "name": true, "city": false} {
		for _, column := range []string{"", "name"} {
			settings := map[string]string{"path": path, "key": ".Key", "columns": columns, "column": column}
			p := enrich.Plugins()[0].New()
			if err := p.Configure(t.Context(), p.Parameters().ApplyDefaults(settings)); err != nil {
				t.Fatal(err)
			}
			err := p.Open(t.Context())
			if want := fails || column == "name"; (err != nil) != want ||
				want && !strings.Contains(err.Error(), `columns 2 and 4 have the same name "name"`) {
				t.Errorf("columns %q, column %q: %v", columns, column, err)
			}
		}
	}
}

// enrichService answers requests for an id and counts them.
type enrichService struct{ asked atomic.Int32 }

func (s *enrichService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.asked.Add(1)
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch id := r.URL.Query().Get("id"); id {
	case "none":
		w.WriteHeader(http.StatusNotFound)
	case "bad":
		w.WriteHeader(http.StatusBadRequest)
	case "busy":
		if n%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `"at last"`)
	case "down":
		w.WriteHeader(http.StatusBadGateway)
	case "long":
		fmt.Fprint(w, `"`+strings.Repeat("x", 1000)+`"`)
	case "text":
		fmt.Fprint(w, `{`)
	default:
		fmt.Fprintf(w, `{"id":%q,"n":%d}`, id, n)
	}
}

func TestHTTP(t *testing.T) {
	var known enrichService
	asked := &known.asked
	server := httptest.NewServer(&known)
	defer server.Close()
	settings := map[string]string{"url": server.URL + "/?token=hidden&id={{ .Payload.After.id | urlquery }}",
		"headers.Authorization": "Bearer secret", "maxBytes": "500", "missing": "refuse", "backoff.min": "1ms"}
	p, ctx, clock := open(t, "enrich.http", settings)
	answer := func(id string, n int32) any {
		return map[string]any{"id": id, "enrichment": map[string]any{"id": id, "n": float64(n)}}
	}
	asks := func(n int32, id string, result any) {
		t.Helper()
		before := asked.Load()
		if n, ok := result.(int32); ok {
			result = answer(id, n)
		}
		want(t, enriched(t, p, ctx, id), result)
		if got := asked.Load() - before; got != n {
			t.Errorf("%s: asked %d times, want %d", id, got, n)
		}
	}
	asks(1, "a b", int32(1))
	asks(0, "a b", int32(1)) // cached
	clock.now = clock.now.Add(time.Minute)
	asks(1, "a b", int32(2))
	asks(1, "none", "there is nothing for it at the service")
	asks(0, "none", "there is nothing for it at the service")
	asks(1, "bad", "cannot query the service: the server answered 400 Bad Request")
	asked.Store(0)
	asks(3, "busy", map[string]any{"id": "busy", "enrichment": "at last"})
	asks(4, "down", "cannot query the service: the server answered 502 Bad Gateway (the last of 4 tries)")
	asks(1, "long", "cannot query the service: the answer is too large: it has more than 500 bytes")
	asks(1, "text", "cannot read the answer of the service: unexpected end of JSON input")

	server.Close()
	if got := fmt.Sprint(enriched(t, p, ctx, "gone")); !strings.Contains(got, "cannot query the service") ||
		strings.Contains(got, "hidden") {
		t.Errorf("a server that is gone: %s", got)
	}
}

func TestHTTPIsBoundedInTime(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	p, ctx, _ := open(t, "enrich.http", map[string]string{"url": server.URL, "timeout": "20ms", "retries": "1",
		"backoff.min": "1ms"})
	if got := fmt.Sprint(enriched(t, p, ctx, "x")); !strings.Contains(got, "(the last of 2 tries)") {
		t.Errorf("%s", got)
	}
}

func TestHTTPCacheEvictsLeastRecentlyUsed(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, "1")
	}))
	defer server.Close()
	p, ctx, _ := open(t, "enrich.http", map[string]string{"url": server.URL + "/{{ .Payload.After.id }}",
		"cache.size": "2"})
	for _, id := range []string{"a", "b", "a", "c", "a", "b"} { // c evicts b
		enriched(t, p, ctx, id)
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}
}

// The cached responses together take at most the memory budget for a record.
func TestHTTPCacheIsBoundedInBytes(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		n := 4000
		if r.URL.Path == "/long" {
			n = 20_000
		}
		fmt.Fprintf(w, "%q", strings.Repeat("x", n))
	}))
	defer server.Close()
	p, ctx, _ := open(t, "enrich.http", map[string]string{"url": server.URL + "/{{ .Payload.After.id }}"})
	ctx = sdk.WithEnv(ctx, &sdk.Env{Logger: slog.New(slog.DiscardHandler), Budget: 10_000})
	for _, id := range []string{"a", "b", "b", "a", "c", "a", "b", "b"} { // c evicts b, b evicts c
		enriched(t, p, ctx, id)
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}
	ctx = sdk.WithEnv(ctx, &sdk.Env{Logger: slog.New(slog.DiscardHandler), Budget: 15_000})
	for range 2 {
		enriched(t, p, ctx, "long") // larger than the whole cache
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("asked %d times, want 6", n)
	}
}
