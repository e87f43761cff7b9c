package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// item is a record of an API.
type item struct {
	ID int    `json:"id"`
	At string `json:"at"`
}

// api is a server with a growing list. The parameter from selects items from a value on, or after it with after=true.
// Pages have three items, and next leads to the next page.
type api struct {
	*httptest.Server
	mu       sync.Mutex
	items    []item            // guarded by mu
	requests []string          // guarded by mu: queries of the requests
	fail     []int             // guarded by mu: statuses of the next responses
	by       func(item) string // value of an item that is compared with from
	behind   bool
}

const pageSize = 3

func newAPI(t testing.TB) *api {
	a := &api{by: func(i item) string { return fmt.Sprintf("%09d", i.ID) }}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// add adds n items.
func (a *api) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for range n {
		id := len(a.items) + 1
		a.items = append(a.items, item{id, fmt.Sprintf("2026-01-01T00:00:%02dZ", id/4)})
	}
}

// ServeHTTP answers with one page.
func (a *api) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r.URL.RawQuery)
	if len(a.fail) > 0 {
		status := a.fail[0]
		if a.fail = a.fail[1:]; status != 200 {
			w.WriteHeader(status)
			return
		}
	}
	q := r.URL.Query()
	from := q.Get("from")
	if n, err := strconv.Atoi(from); err == nil {
		from = fmt.Sprintf("%09d", n)
	}
	page := struct {
		Items []item  `json:"items"`
		Next  *string `json:"next"`
		Token string  `json:"token"`
	}{Items: []item{}}
	offset, _ := strconv.Atoi(q.Get("offset"))
	var all []item
	for _, i := range a.items {
		if v := a.by(i); v > from || v == from && !a.behind {
			all = append(all, i)
		}
	}
	page.Items = append(page.Items, all[min(offset, len(all)):min(offset+pageSize, len(all))]...)
	if offset+pageSize < len(all) {
		next := fmt.Sprintf("?from=%s&offset=%d", q.Get("from"), offset+pageSize)
		page.Next, page.Token = &next, strconv.Itoa(offset+pageSize)
		w.Header().Add("Link", `<https://elsewhere.example/>; rel="prev", <`+next+`>; rel="next"`)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

func ids(t *testing.T, records []record.Record) (all []int) {
	t.Helper()
	for i := range records {
		object, ok := records[i].After.Structured()
		if !ok {
			t.Fatalf("record %d has no structured payload", i)
		}
		all = append(all, int(object["id"].(float64)))
	}
	return all
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// quiet checks that no more records arrive during several polls.
func quiet(t *testing.T, a *api, s sdk.Source) {
	t.Helper()
	a.mu.Lock()
	n := len(a.requests)
	a.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		wait.Until(ctx, func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.requests)-n >= 3
		})
	}()
	if records, err := s.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %d more records, first %s: %v", len(records), payloads(t, records[:min(1, len(records))]), err)
	}
}

// TestPollCursor checks that the records after the cursor are read once, in pages. It covers ids and shared times as
// cursor, and servers that include or exclude records equal to the cursor.
func TestPollCursor(t *testing.T) {
	t.Parallel()
	for _, pages := range []map[string]string{{"pagination": "token", "pagination.path": "next"},
		{"pagination": "link"},
		{"pagination": "token", "pagination.path": "token", "pagination.param": "offset"}} {
		for _, field := range []string{"id", "at"} {
			for _, behind := range []bool{false, true} {
				if field == "at" && behind {
					continue // such a server hides later records with the same time
				}
				a := newAPI(t)
				a.behind = behind
				if field == "at" {
					a.by = func(i item) string { return i.At }
				}
				settings := map[string]string{"url": a.URL + "/?x=1", "records.path": "items", "cursor.field": field,
					"cursor.param": "from", "pollingPeriod": "1ms"}
				for k, v := range pages {
					settings[k] = v
				}
				a.add(10)
				s := source(t, settings, nil)
				all := plugintest.Read(t, s, 10)
				quiet(t, a, s)
				a.add(7)
				all = append(all, plugintest.Read(t, s, 7)...)
				quiet(t, a, s)
				if got := ids(t, all); !slices.Equal(got, upTo(17)) {
					t.Fatalf("%v by %s: got %v", pages, field, got)
				}
				for i := range all { // from every position
					s := source(t, settings, all[i].Position)
					if i+1 < len(all) {
						if got := ids(t, plugintest.Read(t, s, len(all)-i-1)); !slices.Equal(got, upTo(17)[i+1:]) {
							t.Fatalf("%v by %s: from position %d %s got %v", pages, field, i+1, all[i].Position, got)
						}
					}
					quiet(t, a, s)
				}
			}
		}
	}
}

// TestPollOrder checks that reading stops at records that are not in ascending order: records in between would be lost.
func TestPollOrder(t *testing.T) {
	r := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `[{"id":9},{"id":10},{"id":2}]`)
	}))
	defer r.Close()
	s := source(t, map[string]string{"url": r.URL, "cursor.field": "id", "cursor.param": "since"}, nil)
	if _, err := s.Read(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `record 3 of the response has id "2", less than the previous "10"`) {
		t.Errorf("got %v", err)
	}
}

// TestPollChangedRun checks that changed records at the cursor are all read again, so that none is lost.
func TestPollChangedRun(t *testing.T) {
	a := newAPI(t)
	a.by = func(i item) string { return i.At }
	a.add(3) // all with the same second
	settings := map[string]string{"url": a.URL, "records.path": "items", "cursor.field": "at", "cursor.param": "from",
		"pagination": "link", "pollingPeriod": "1ms"}
	s := source(t, settings, nil)
	plugintest.Read(t, s, 3)
	a.mu.Lock()
	a.items = []item{{1, a.items[0].At}, {7, a.items[0].At}, {3, a.items[0].At}}
	a.mu.Unlock()
	if got := ids(t, plugintest.Read(t, s, 3)); !slices.Equal(got, []int{1, 7, 3}) {
		t.Errorf("got %v", got)
	}
	quiet(t, a, s)
}

// TestPollFailures checks that polling continues after temporary failures, and reports permanent ones.
func TestPollFailures(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.add(2)
	a.fail = slices.Repeat([]int{500}, 10_000) // until the warning was seen
	settings := map[string]string{"url": a.URL, "records.path": "items", "cursor.field": "id", "cursor.param": "from",
		"pollingPeriod": "1ms"}
	s := source(t, settings, nil)
	done := make(chan []record.Record, 1)
	go func() { records, _ := s.Read(t.Context()); done <- records }()
	wait.For(t, "the failure is reported", func() bool {
		return strings.Contains(s.Progress().Warning, "the server responded with status 500")
	})
	a.mu.Lock()
	a.fail = []int{429, 503}
	a.mu.Unlock()
	all := <-done
	if len(all) != 2 || s.Progress().Warning != "" {
		t.Errorf("%d records, warning %q", len(all), s.Progress().Warning)
	}
	for status, want := range map[int]string{401: "the server responded with status 401",
		404: "the server responded with status 404",
		410: "records were missed"} {
		a.mu.Lock()
		a.fail = []int{status}
		a.mu.Unlock()
		if _, err := source(t, settings, all[1].Position).Read(t.Context()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%d: got %v", status, err)
		}
	}
}

// TestPollToken checks polling with a cursor from the response.
func TestPollToken(t *testing.T) {
	var mu sync.Mutex
	log := 7
	asked := map[string]int{}
	a := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.RawQuery]++
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		var items []item
		for id := after + 1; id <= min(log, after+pageSize); id++ {
			items = append(items, item{ID: id})
		}
		body := map[string]any{"events": items}
		if len(items) == pageSize { // only a full page has a cursor
			body["meta"] = map[string]any{"next": after + pageSize}
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	defer a.Close()
	settings := map[string]string{"url": a.URL, "records.path": "events", "cursor.path": "meta.next",
		"cursor.param": "after", "pollingPeriod": "1ms"}
	s := source(t, settings, nil)
	all := plugintest.Read(t, s, 7)
	for _, n := range []int{8, 9, 13} { // the page grows, is full, and more follow
		mu.Lock()
		log = n
		mu.Unlock()
		all = append(all, plugintest.Read(t, s, n-len(all))...)
	}
	if got := ids(t, all); !slices.Equal(got, upTo(13)) {
		t.Fatalf("got %v", got)
	}
	for i := range 12 {
		if got := ids(t, plugintest.Read(t, source(t, settings, all[i].Position), 12-i)); !slices.Equal(got,
			upTo(13)[i+1:]) {
			t.Fatalf("from position %d %s got %v", i+1, all[i].Position, got)
		}
	}
}

// TestPollWhole checks that a document is read once, and again after a change, with conditional requests.
func TestPollWhole(t *testing.T) {
	for _, tagged := range []bool{true, false} {
		var mu sync.Mutex
		body, unchanged, polls := `[{"id":1},{"id":2},{"id":3}]`, 0, 0
		a := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			mu.Lock()
			defer mu.Unlock()
			polls++
			etag := fmt.Sprintf("%q", body[1:9])
			if r.Header.Get("If-None-Match") == etag && tagged {
				unchanged++
				w.WriteHeader(nethttp.StatusNotModified)
				return
			}
			if tagged {
				w.Header().Set("ETag", etag)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, body)
		}))
		defer a.Close()
		settings := map[string]string{"url": a.URL, "pollingPeriod": "1ms"}
		s := source(t, settings, nil)
		all := plugintest.Read(t, s, 3)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			wait.Until(ctx, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return polls > 3
			})
		}()
		if again, err := s.Read(ctx); err == nil {
			t.Errorf("what did not change is read again: %v", ids(t, again))
		}
		if got := ids(t, plugintest.Read(t, source(t, settings, all[0].Position), 2)); !slices.Equal(got, []int{2, 3}) {
			t.Errorf("from the first position: %v", got)
		}
		mu.Lock()
		if body = `[{"id":4}]`; tagged != (unchanged > 0) {
			t.Errorf("%d responses say that nothing changed", unchanged)
		}
		mu.Unlock()
		for _, s := range []sdk.Source{s, source(t, settings, all[1].Position), source(t, settings, all[2].Position)} {
			if got := ids(t, plugintest.Read(t, s, 1)); !slices.Equal(got, []int{4}) {
				t.Errorf("after the change: %v", got)
			}
		}
	}
}

// TestPollPages reads all pages by number, and resumes in the middle of a page.
func TestPollPages(t *testing.T) {
	a := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		items := []item{}
		for id := (page-1)*pageSize + 1; id <= min(8, page*pageSize); id++ {
			items = append(items, item{ID: id})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(items)
	}))
	defer a.Close()
	settings := map[string]string{"url": a.URL, "pagination": "page", "pagination.param": "page", "pollingPeriod": "1h"}
	all := plugintest.Read(t, source(t, settings, nil), 8)
	if got := ids(t, all); !slices.Equal(got, upTo(8)) {
		t.Fatalf("got %v", got)
	}
	for i := range 7 {
		if got := ids(t, plugintest.Read(t, source(t, settings, all[i].Position), 7-i)); !slices.Equal(got,
			upTo(8)[i+1:]) {
			t.Errorf("from position %d %s got %v", i+1, all[i].Position, got)
		}
	}
}

// TestPollElsewhere checks that nothing is sent to another server, neither by a redirect nor by a next page.
func TestPollElsewhere(t *testing.T) {
	t.Parallel()
	other := newRecorder(t, nil)
	for want, answer := range map[string]nethttp.HandlerFunc{
		"redirects to another": func(w nethttp.ResponseWriter, r *nethttp.Request) {
			nethttp.Redirect(w, r, other.URL, nethttp.StatusFound)
		},
		"which must not get the": func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Link", "<"+other.URL+`>; rel=next`)
			_, _ = w.Write([]byte("x"))
		},
	} {
		a := httptest.NewServer(answer)
		defer a.Close()
		s := source(t, map[string]string{"url": a.URL, "pagination": "link", "headers.X-API-Key": "topsecret"}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { _, err := s.Read(ctx); ended <- err }()
		wait.For(t, "it fails", func() bool { return len(ended) > 0 || s.Progress().Warning != "" })
		warning := s.Progress().Warning
		cancel()
		if text := fmt.Sprint(<-ended, warning); !strings.Contains(text, want) || strings.Contains(text, "topsecret") {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	if got := other.bodies(); len(got) > 0 {
		t.Errorf("the other server got %d requests", len(got))
	}
}

// TestPollBounds checks that foreign positions are refused.
func TestPollBounds(t *testing.T) {
	a := newAPI(t)
	a.add(3)
	other := &http.Source{}
	_ = other.Configure(t.Context(), map[string]string{"url": a.URL})
	for _, pos := range []string{"17", `{"n":0}`, `{"n":1,"x":2}`} {
		if err := other.Open(t.Context(), record.Position(pos)); err == nil ||
			!strings.Contains(err.Error(), "cannot resume at position") {
			t.Errorf("%s: got %v", pos, err)
		}
	}
}

// TestPollBadItems checks that invalid data is skipped and reported, and that the rest and later responses are read.
func TestPollBadItems(t *testing.T) {
	t.Parallel()
	cursor := map[string]string{"cursor.field": "id", "cursor.param": "since"}
	large := `{"id":9,"a":"` + strings.Repeat("x", 3000) + `"}`
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, test := range map[string]struct {
		settings map[string]string
		bad      string // first response
		read     int    // number of records read from it
		skipped  string
	}{
		"a page of HTML":             {nil, "<html>maintenance</html>", 0, "not one JSON value"},
		"a page of HTML with a path": {map[string]string{"records.path": "items"}, "<html>", 0, "it is not JSON"},
		"half a page":                {nil, `[{"id":1},{"id":`, 0, "not one JSON value"},
		"an error in a page": {map[string]string{"records.path": "items"}, `{"error":"later"}`, 0,
			"no value at records.path items"},
		"a page that is too large": {map[string]string{"body.maxBytes": "1000"}, "[" + large + "]", 0,
			"more than 1000 bytes"},
		"a page that is too deep": {nil, deep, 0, "nested"},
		"a record without a cursor": {cursor, `[{"id":1},{"x":2},"text",null,{"id":3}]`, 2,
			"cursor.field id must contain text or a number"},
	} {
		t.Run(name, func(t *testing.T) {
			var polls atomic.Int64
			mended := make(chan struct{})
			r := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
				w.Header().Set("Content-Type", "application/json")
				polls.Add(1)
				select {
				case <-mended:
					if test.settings["records.path"] != "" {
						_, _ = fmt.Fprint(w, `{"items":[{"id":7}]}`)
						return
					}
					_, _ = fmt.Fprint(w, `[{"id":7}]`)
				default:
					if r.URL.Query().Get("since") != "" {
						_, _ = fmt.Fprint(w, `[{"x":2},{"id":3}]`)
						return
					}
					_, _ = fmt.Fprint(w, test.bad)
				}
			}))
			defer r.Close()
			settings := map[string]string{"url": r.URL, "pollingPeriod": "1ms"}
			maps.Copy(settings, test.settings)
			s := source(t, settings, nil)
			if test.read > 0 {
				plugintest.Read(t, s, test.read)
			}
			done := make(chan []record.Record, 1)
			go func() {
				records, err := s.Read(t.Context())
				if err != nil {
					t.Error(err)
				}
				done <- records
			}()
			wait.For(t, "it is said what is left out", func() bool {
				skipped := s.Progress().Skipped
				return polls.Load() > 2 && len(skipped) > 0 &&
					strings.Contains(skipped[len(skipped)-1].Error, test.skipped)
			})
			close(mended)
			records := <-done
			if n := len(records); n != 1 {
				t.Fatalf("%d records", n)
			}
			if left := s.Progress().Skipped; test.read == 0 && len(left) > 0 {
				t.Errorf("still left out: %v", left)
			}
		})
	}
}
