package api_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// fakeDeadLetters is a dead-letter store with one dead letter of the pipeline orders, number 17.
type fakeDeadLetters struct {
	calls  []string
	broken error
	gone   bool

	record   string // "": of a position only
	bytes    int64
	vanishes bool // it is gone when it is read
}

func (d *fakeDeadLetters) call(what string, v any) error {
	text, _ := json.Marshal(v)
	d.calls = append(d.calls, what+" "+string(text))
	return d.broken
}

func (d *fakeDeadLetters) has(pipeline string, id int64) bool {
	return !d.gone && pipeline == "orders" && id == 17
}

func (d *fakeDeadLetters) deadLetter() spec.DeadLetter {
	return spec.DeadLetter{ID: 17, PipelineID: "orders", Stage: spec.RefusedByDestination, Error: "no",
		Refusals: []spec.Refusal{{Error: "no"}}, Bytes: d.bytes,
		Record: json.RawMessage(cmp.Or(d.record, `{"position":"MQ=="}`))}
}

func (d *fakeDeadLetters) Totals(context.Context) ([]spec.DeadLetterTotals, error) {
	return []spec.DeadLetterTotals{{PipelineID: "orders", Count: 1}}, d.call("totals", nil)
}

func (d *fakeDeadLetters) List(
	_ context.Context, pipeline string, f spec.DeadLetterFilter, before int64, limit int,
) (spec.DeadLetterPage, error) {
	page := spec.DeadLetterPage{DeadLetters: []spec.DeadLetter{}, Totals: spec.DeadLetterTotals{PipelineID: pipeline}}
	if d.has(pipeline, 17) {
		page.DeadLetters, page.Totals.Count = append(page.DeadLetters, d.deadLetter()), 1
	}
	return page, d.call("list", []any{pipeline, f, before, limit})
}

func (d *fakeDeadLetters) Get(_ context.Context, pipeline string, id int64) (spec.DeadLetter, error) {
	if err := d.call("get", []any{pipeline, id}); err != nil || d.has(pipeline, id) && !d.vanishes {
		return d.deadLetter(), err
	}
	return spec.DeadLetter{}, spec.ErrNotFound
}

func (d *fakeDeadLetters) Edit(
	ctx context.Context, pipeline string, id int64, r *record.Record,
) (spec.DeadLetter, error) {
	d.call("edit", r)
	return d.Get(ctx, pipeline, id)
}

func (d *fakeDeadLetters) Drop(_ context.Context, pipeline string, ids []int64) (n int64, err error) {
	for _, id := range ids {
		if d.has(pipeline, id) {
			n++
		}
	}
	return n, d.call("drop", ids)
}

func (d *fakeDeadLetters) DropAll(_ context.Context, pipeline string, f spec.DeadLetterFilter) (int64, error) {
	return 3, d.call("drop all", []any{pipeline, f})
}

func (d *fakeDeadLetters) Start(_ context.Context, pipeline string, request spec.ReplayRequest) (spec.Replay, error) {
	return spec.Replay{PipelineID: pipeline, Running: true}, d.call("replay", request)
}

func (d *fakeDeadLetters) Status(_ context.Context, pipeline string) (spec.Replay, bool) {
	return spec.Replay{PipelineID: pipeline}, d.call("status", pipeline) == nil && pipeline == "orders"
}

func (d *fakeDeadLetters) Cancel(_ context.Context, pipeline string) (spec.Replay, bool, error) {
	return spec.Replay{PipelineID: pipeline, Cancelled: true, Member: "m2"}, pipeline == "orders",
		d.call("cancel", pipeline)
}

// Lists have excerpts of records on request. They are one line each, bounded, and left out for large dead letters.
func TestExcerptsOfDeadLetters(t *testing.T) {
	data := func(before, after string) string {
		return `{"position":"MQ==","operation":"create","metadata":null,"key":null,"payload":{"before":` + before +
			`,"after":` + after + `}}`
	}
	raw := func(text string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"` }
	for name, c := range map[string]struct {
		record, want string
		bytes        int64
	}{
		"text":         {data("null", raw("a \u001b[31mb\n\n  c")), "a \u001b[31mb c", 9},
		"structured":   {data("null", `{"a":12345678901234567890,"b":"<x>"}`), `{"a":12345678901234567890,"b":"<x>"}`, 9},
		"bytes":        {data("null", raw("\xff\x00")), "base64:/wA=", 9},
		"deletion":     {data(raw("old"), "null"), "old", 9},
		"nothing":      {data("null", "null"), "", 9},
		"long":         {data("null", raw(strings.Repeat("ä", 300))), strings.Repeat("ä", 200) + "…", 9},
		"no record":    {`{"position":"?"}`, "", 9},
		"large":        {data("null", raw("x")), "", 64<<10 + 1},
		"at the limit": {data("null", raw("x")), "x", 64 << 10},
	} {
		w := newWorld(t)
		s := newServer(w)
		store := &fakeDeadLetters{record: c.record, bytes: c.bytes}
		s.DeadLetters, s.Replays = store, store
		got := do(s.Handler(), "GET", "/v1/pipelines/orders/dead-letters?records=true&limit=500", "")
		var page spec.DeadLetterPage
		if err := json.Unmarshal(got.body, &page); err != nil || got.status != 200 || len(page.DeadLetters) != 1 ||
			page.DeadLetters[0].Excerpt != c.want {
			t.Errorf("%s: %d %s, want %q", name, got.status, got.body, c.want)
		}
		if !strings.HasSuffix(store.calls[0], ",0,100]") {
			t.Errorf("%s: %s", name, store.calls[0])
		}
		if plain := do(s.Handler(), "GET", "/v1/pipelines/orders/dead-letters", ""); strings.Contains(string(plain.body),
			"excerpt") {
			t.Errorf("%s without a request: %s", name, plain.body)
		}
	}
	s := newServer(newWorld(t))
	store := &fakeDeadLetters{vanishes: true}
	s.DeadLetters, s.Replays = store, store
	if got := do(s.Handler(), "GET", "/v1/pipelines/orders/dead-letters?records", ""); got.status != 200 {
		t.Errorf("dropped meanwhile: %d %s", got.status, got.body)
	}
	if got := do(s.Handler(), "GET", "/v1/pipelines/orders/dead-letters?records=x", ""); got.status != 400 {
		t.Errorf("not a flag: %d %s", got.status, got.body)
	}
}

// A replay in progress keeps another from beginning.
func TestReplayRuns(t *testing.T) {
	w := newWorld(t)
	w.declared["orders"] = &spec.Declaration{Pipeline: pipelineOf("orders", spec.StatusStopped),
		Owner: spec.Owner{Kind: spec.OwnerAPI}}
	s := newServer(w)
	store := &fakeDeadLetters{broken: fmt.Errorf("it runs: %w", spec.ErrConflict)}
	s.DeadLetters, s.Replays = store, store
	if got := do(s.Handler(), "POST", "/v1/pipelines/orders/dead-letter-replay", `{"all":true}`); got.status != 409 ||
		!strings.Contains(string(got.body), "being replayed already") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A client that may only read sees dead letters and cannot change them.
func TestDeadLettersForReaders(t *testing.T) {
	for request, status := range map[string]int{
		"GET /v1/dead-letters": 200, "GET /v1/pipelines/orders/dead-letters": 200,
		"GET /v1/pipelines/orders/dead-letters/17": 200, "GET /v1/pipelines/orders/dead-letter-replay": 200,
		"PUT /v1/pipelines/orders/dead-letters/17": 403, "DELETE /v1/pipelines/orders/dead-letters/17": 403,
		"DELETE /v1/pipelines/orders/dead-letters":     403,
		"POST /v1/pipelines/orders/dead-letter-replay": 403, "DELETE /v1/pipelines/orders/dead-letter-replay": 403,
	} {
		s := newServer(newWorld(t))
		s.Tokens = withTokens("reader", "admin")
		store := &fakeDeadLetters{}
		s.DeadLetters, s.Replays = store, store
		method, path, _ := strings.Cut(request, " ")
		body := ""
		if method == "PUT" || method == "POST" {
			body = "{}"
		}
		if got := do(s.Handler(), method, path, body, "Authorization", "Bearer reader"); got.status != status {
			t.Errorf("%s: %d %s", request, got.status, got.body)
		}
	}
}

// TestDeadLetters checks the mapping of requests to calls of the store, and the answers.
func TestDeadLetters(t *testing.T) {
	const record = `{"record":{"position":"MQ==","payload":{"after":{"id":1}}}}`
	for _, c := range []struct {
		request string // method, path and body
		status  int
		call    string // of the store, "" for none
		answer  string // must contain this
	}{
		{"GET /v1/dead-letters", 200, `totals null`, `"count":1`},
		{"GET /v1/pipelines/orders/dead-letters", 200, `list ["orders",{},0,100]`, `"id":17`},
		{
			"GET /v1/pipelines/orders/dead-letters?error=x&key=k&stage=destination&since=2026-01-02T03:04:05Z&before=9" +
				"&limit=5000", 200,
			`list ["orders",{"error":"x","key":"k","stage":"destination","since":"2026-01-02T03:04:05Z"},9,500]`, ``},
		{"GET /v1/pipelines/orders/dead-letters?stage=nowhere", 400, ``, `stage must be`},
		{"GET /v1/pipelines/orders/dead-letters?since=yesterday", 400, ``, `since must be a time`},
		{"GET /v1/pipelines/none/dead-letters", 404, `list ["none",{},0,100]`, `pipeline \"none\" not found`},
		{"GET /v1/pipelines/orders/dead-letters/17", 200, `get ["orders",17]`, `"record":{`},
		{"GET /v1/pipelines/orders/dead-letters/18", 404, `get ["orders",18]`, `no dead letter`},
		{"GET /v1/pipelines/orders/dead-letters/x", 404, ``, `no dead letter`},
		{"GET /v1/pipelines/none/dead-letters/17", 404, `list ["none",{},0,1]`, `pipeline \"none\" not found`},
		{"PUT /v1/pipelines/orders/dead-letters/17 " + record, 200, `get ["orders",17]`, `"id":17`},
		{`PUT /v1/pipelines/orders/dead-letters/17 {"record":{"payload":{}}}`, 400, ``, `record.position`},
		{`PUT /v1/pipelines/orders/dead-letters/17 {"record":{"position":"MQ==","operation":"eat"}}`, 400, ``,
			`operation`},
		{"DELETE /v1/pipelines/orders/dead-letters/17", 200, `drop [17]`, `"dropped":1`},
		{"DELETE /v1/pipelines/orders/dead-letters/18", 404, `drop [18]`, `no dead letter`},
		{"DELETE /v1/pipelines/orders/dead-letters", 400, ``, `no dead letters selected`},
		{"DELETE /v1/pipelines/orders/dead-letters?ids=17,18", 200, `drop [17,18]`, `"dropped":1`},
		{"DELETE /v1/pipelines/orders/dead-letters?ids=17&all=true", 400, ``, `no dead letters selected`},
		{"DELETE /v1/pipelines/orders/dead-letters?ids=a", 400, ``, `ids must be numbers`},
		{"DELETE /v1/pipelines/orders/dead-letters?error=x", 200, `drop all ["orders",{"error":"x"}]`, `"dropped":3`},
		{`POST /v1/pipelines/orders/dead-letter-replay {"ids":[17]}`, 200, `replay {"ids":[17]}`, `"running":true`},
		{`POST /v1/pipelines/orders/dead-letter-replay {"filter":{"error":"x"}}`, 200,
			`replay {"filter":{"error":"x"}}`, `"running":true`},
		{`POST /v1/pipelines/orders/dead-letter-replay {"ids":[17],"from":"first"}`, 200,
			`replay {"ids":[17],"from":"first"}`, `"running":true`},
		{`POST /v1/pipelines/orders/dead-letter-replay {"ids":[17],"from":"p1"}`, 400, ``, `want refused or first`},
		{`POST /v1/pipelines/orders/dead-letter-replay {"filter":{"stage":"x"}}`, 400, ``, `stage must be`},
		{`POST /v1/pipelines/orders/dead-letter-replay {"filter":{}}`, 400, ``, `no dead letters selected`},
		{`POST /v1/pipelines/none/dead-letter-replay {"all":true}`, 404, ``, `not found`},
		{"GET /v1/pipelines/none/dead-letter-replay", 404, `status "none"`, `were replayed since`},
		{"DELETE /v1/pipelines/orders/dead-letter-replay", 200, `cancel "orders"`, `"cancelled":true,"member":"m2"`},
		{"DELETE /v1/pipelines/none/dead-letter-replay", 404, `cancel "none"`, `were replayed since`},
		{"DELETE /v1/pipelines/orders/dead-letters?all=true", 200, `drop all ["orders",{}]`, `"dropped":3`},
	} {
		w := newWorld(t)
		w.declared["orders"] = &spec.Declaration{Pipeline: pipelineOf("orders", spec.StatusStopped),
			Owner: spec.Owner{Kind: spec.OwnerAPI}}
		s := newServer(w)
		store := &fakeDeadLetters{}
		s.DeadLetters, s.Replays = store, store
		words := strings.SplitN(c.request+" ", " ", 3)
		got := do(s.Handler(), words[0], words[1], strings.TrimSpace(words[2]))
		if got.status != c.status || !strings.Contains(string(got.body), c.answer) || c.call == "" &&
			len(store.calls) > 0 || c.call != "" && !slices.Contains(store.calls, c.call) {
			t.Errorf("%s: %d %s, calls %q", c.request, got.status, got.body, store.calls)
		}
		if c.status != 200 || c.call == "" {
			continue
		}
		store.broken = errors.New("cannot use the dead-letter store")
		if got := do(s.Handler(), words[0], words[1], strings.TrimSpace(words[2])); got.status != 503 ||
			!strings.Contains(string(got.body), "cannot use the dead-letter store") {
			t.Errorf("%s while the store is broken: %d %s", c.request, got.status, got.body)
		}
	}
}

// TestDeadLettersElsewhere puts dead letters on another member of the cluster only. Requests for them are refused here
// with the name and the address of that member; a list names the member instead.
func TestDeadLettersElsewhere(t *testing.T) {
	w := newWorld(t)
	w.declared["orders"] = &spec.Declaration{Pipeline: pipelineOf("orders", spec.StatusRunning),
		Owner: spec.Owner{Kind: spec.OwnerAPI}}
	w.refused = []spec.MemberDeadLetters{{Member: "m2", Address: "10.0.0.2:8080", Count: 3}}
	s, store := newServer(w), &fakeDeadLetters{gone: true}
	s.DeadLetters, s.Replays = store, store
	const path, away = "/v1/pipelines/orders/dead-letters", "m2 at 10.0.0.2:8080 has 3"
	for request, want := range map[string]string{
		"GET " +
			path: `"elsewhere":[{"member":"m2","address":"10.0.0.2:8080","count":3}]`,
		"GET /v1/pipelines/orders/status":                           `"deadLettersElsewhere":[{"member":"m2"`,
		"DELETE " + path + "?all=true":                              away,
		"DELETE " + path + "?ids=17":                                away,
		"GET " + path + "/17":                                       away,
		"DELETE " + path + "/17":                                    away,
		"PUT " + path + `/17 {"record":{"position":"MQ=="}}`:        away,
		`POST /v1/pipelines/orders/dead-letter-replay {"all":true}`: away,
	} {
		method, rest, _ := strings.Cut(request, " ")
		target, body, _ := strings.Cut(rest, " ")
		if got := do(s.Handler(), method, target, body); !strings.Contains(string(got.body), want) ||
			(got.status == 200) != (want != away) {
			t.Errorf("%s: %d %s, want %s", request, got.status, got.body, want)
		}
	}
	if got := do(s.Handler(), "GET", path+"/17", ""); got.status != 404 {
		t.Errorf("a dead letter that is not here is answered %d", got.status)
	}
	store.gone = false // one is here
	if got := do(s.Handler(), "GET", path+"/17", ""); got.status != 200 {
		t.Errorf("a dead letter that is here is answered %d %s", got.status, got.body)
	}
	if got := do(s.Handler(), "DELETE", path+"?all=true", ""); got.status != 200 {
		t.Errorf("those that are here are not dropped: %d %s", got.status, got.body)
	}
}
