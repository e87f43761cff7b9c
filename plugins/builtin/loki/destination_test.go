package loki_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/loki"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// body is a request to the push API.
type body struct {
	Streams []struct {
		Stream map[string]string   `json:"stream"`
		Values [][]json.RawMessage `json:"values"`
	} `json:"streams"`
}

// server keeps the requests it accepts.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []body         // guarded by mu
	header http.Header    // guarded by mu: of the last request
	path   string         // guarded by mu
	refuse func(body) int // status of a request; nil: 204
}

func serve(t testing.TB) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		text, _ := io.ReadAll(r.Body)
		var b body
		if err := json.Unmarshal(text, &b); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		s.header, s.path = r.Header, r.URL.String()
		status := http.StatusNoContent
		if s.refuse != nil {
			status = s.refuse(b)
		}
		if status == http.StatusNoContent {
			s.bodies = append(s.bodies, b)
		}
		w.WriteHeader(status)
		if status/100 != 2 {
			_, _ = io.WriteString(w, "why it is refused")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// lines returns the accepted lines with their labels, times and metadata.
func (s *server) lines() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bodies {
		for _, stream := range b.Streams {
			for _, value := range stream.Values {
				labels, _ := json.Marshal(stream.Stream)
				all = append(all, fmt.Sprintf("%s %s", labels, slices.Concat(value...)))
			}
		}
	}
	return all
}

// open returns an open destination.
func open(t *testing.T, settings map[string]string) sdk.Destination {
	t.Helper()
	return builtintest.Open(t, &loki.Destination{}, settings)
}

// newRecord returns a record with a payload and a team.
func newRecord(after record.Data, team string) record.Record {
	return record.Record{Position: record.Position("p"), Operation: record.OperationCreate, After: after,
		Metadata: record.NewMetadata(map[string]string{"team": team, record.KeyReadAt: "1700000000123000000"})}
}

func raw(text string) record.Data { return record.Raw([]byte(text)) }

// TestLines checks the labels, the line and the structured metadata of records.
func TestLines(t *testing.T) {
	type set = map[string]string
	const job = `{"job":"app"} "1700000000123000000"`
	object := record.Structured(map[string]any{"a": 1, "text": "x\ny"})
	for name, c := range map[string]struct {
		settings set
		record   record.Record
		want     string // or a part of the error
	}{
		"text":       {nil, newRecord(raw("a \"b\"\t\\"), ""), job + `"a \"b\"\t\\"`},
		"empty":      {nil, newRecord(raw(""), ""), job + `""`},
		"object":     {nil, newRecord(object, ""), job + `"{\"a\":1,\"text\":\"x\\ny\"}"`},
		"line":       {set{"line": "{{ .Payload.After.text }}"}, newRecord(object, ""), job + `"x\ny"`},
		"none":       {nil, newRecord(record.Data{}, ""), "has no payload after the change"},
		"none, line": {set{"line": "deleted"}, newRecord(record.Data{}, ""), job + `"deleted"`},
		"bytes":      {nil, newRecord(raw("\xff"), ""), "not UTF-8"},
		"label": {set{"labels.team": "{{ .Metadata.team }}"}, newRecord(raw("x"), `a"b`),
			`{"job":"app","team":"a\"b"} "1700000000123000000""x"`},
		"empty label": {set{"labels.team": "{{ .Metadata.team }}"}, newRecord(raw("x"), ""), job + `"x"`},
		"no label": {set{"labels.job": "{{ .Metadata.team }}"}, newRecord(raw("x"), ""),
			"all its labels are empty"},
		"long label": {set{"labels.team": "{{ .Metadata.team }}"}, newRecord(raw("x"), strings.Repeat("x", 20_000)),
			"more than 16384"},
		"metadata": {set{"metadata.trace": "t-{{ .Metadata.team }}", "metadata.b": "{{ .Metadata.team }}"},
			newRecord(raw("x"), "w"), job + `"x"{"b":"w","trace":"t-w"}`},
		"empty metadata":  {set{"metadata.b": "{{ .Metadata.team }}"}, newRecord(raw("x"), ""), job + `"x"`},
		"missing":         {set{"metadata.b": "{{ .Metadata.none }}"}, newRecord(raw("x"), ""), "metadata.b"},
		"missing label":   {set{"labels.b": "{{ .Metadata.none }}"}, newRecord(raw("x"), ""), "labels.b"},
		"missing in line": {set{"line": "{{ .Metadata.none }}"}, newRecord(raw("x"), ""), "template of line"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			settings := set{"url": s.URL, "labels.job": "app"}
			maps.Copy(settings, c.settings)
			builtintest.CheckWrite(t, open(t, settings), c.record, s.lines, c.want)
		})
	}
}

// TestRequests checks the URL and the headers, and that the lines of a stream stay together and in order.
func TestRequests(t *testing.T) {
	s := serve(t)
	d := open(t, map[string]string{"url": s.URL + "/base?x=y", "labels.team": "{{ .Metadata.team }}", "tenant": "us",
		"auth.token": "secret", "headers.X-Own": "own"})
	var all []record.Record
	for i := range 6 {
		all = append(all, newRecord(raw(fmt.Sprint(i)), fmt.Sprint(i%2)))
	}
	if n, err := d.Write(t.Context(), all); n != 6 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if len(s.bodies) != 1 || len(s.bodies[0].Streams) != 2 {
		t.Fatalf("the requests are %+v", s.bodies)
	}
	var got []string
	for _, line := range s.lines() {
		got = append(got, line[len(line)-2:len(line)-1])
	}
	if want := []string{"0", "2", "4", "1", "3", "5"}; !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
	if s.path != "/base/loki/api/v1/push?x=y" || s.header.Get("X-Scope-OrgID") != "us" ||
		s.header.Get("Authorization") != "Bearer secret" || s.header.Get("X-Own") != "own" ||
		s.header.Get("Content-Type") != "application/json" {
		t.Errorf("the request is to %s with %v", s.path, s.header)
	}
}

// TestRefusals checks that exactly the lines that the server refuses are refused.
func TestRefusals(t *testing.T) {
	s := serve(t)
	s.refuse = func(b body) int {
		for _, stream := range b.Streams {
			if stream.Stream["team"] == "bad" {
				return http.StatusBadRequest
			}
		}
		return http.StatusNoContent
	}
	d := open(t, map[string]string{"url": s.URL, "labels.team": "{{ .Metadata.team }}"})
	var all []record.Record
	for i := range 20 {
		team := "good"
		if i == 3 || i == 11 || i == 12 {
			team = "bad"
		}
		all = append(all, newRecord(raw(fmt.Sprint(i)), team))
	}
	var refused []int
	for n := 0; n < len(all); {
		written, err := d.Write(t.Context(), all[n:])
		if n += written; err == nil {
			continue
		}
		if builtintest.Lost(err) || !strings.Contains(err.Error(), "why it is refused") {
			t.Fatal(err)
		}
		refused = append(refused, n)
		n++
	}
	if !slices.Equal(refused, []int{3, 11, 12}) || len(s.lines()) != 17 {
		t.Errorf("refused are %v, and there are %d lines", refused, len(s.lines()))
	}
}

// TestStreams checks the bound on streams.
func TestStreams(t *testing.T) {
	s := serve(t)
	d := open(t, map[string]string{"url": s.URL, "labels.team": "{{ .Metadata.team }}", "streams.max": "2"})
	for i, want := range []string{"", "", "streams.max", ""} {
		team := fmt.Sprint([]int{0, 1, 2, 1}[i])
		n, err := d.Write(t.Context(), []record.Record{newRecord(raw("x"), team)})
		if (err == nil) != (want == "") || builtintest.Lost(err) || err == nil && n != 1 ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: wrote %d: %v", i, n, err)
		}
	}
}

// TestAnswers checks which responses are no record's fault.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		text   string
		want   string
	}{
		"page":      {200, "<html>Grafana</html>", "check url"},
		"path":      {404, "not found", "check the path in url"},
		"password":  {401, "no", "auth.*"},
		"rate":      {429, "Ingestion rate limit exceeded", "Ingestion rate limit"},
		"starting":  {503, "starting", "503"},
		"wrong url": {400, "no", "url may be wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.text)
			}))
			defer at.Close()
			d := open(t, map[string]string{"url": at.URL, "labels.job": "app", "retry.timeout": "0s"})
			n, err := d.Write(t.Context(), []record.Record{newRecord(raw("x"), "")})
			if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
	}
}

// TestSettings checks that wrong settings are refused, with the setting to change.
func TestSettings(t *testing.T) {
	builtintest.CheckSettings(t, loki.Connector().NewDestination,
		map[string]string{"url": "http://h", "labels.job": "app"}, map[string]string{
			`{"url":"h:3100"}`:              `"url"`,
			`{"labels.a-b":"x"}`:            `"labels.a-b"`,
			`{"labels.1a":"x"}`:             `"labels.1a"`,
			`{"labels.a":"{{ .Key"}`:        `"labels.a"`,
			`{"metadata.a":"{{ .Key"}`:      `"metadata.a"`,
			`{"line":"{{ .Key"}`:            `"line"`,
			`{"tenant":"a\nb"}`:             `tenant`,
			`{"labels.job":null}`:           `labels.*`,
			`{"auth.token":"a\nb"}`:         `auth.token`,
			`{"headers.X-A":"a\nb"}`:        `headers.X-A`,
			`{"tls.ca":"x"}`:                `tls.ca`,
			`{"metadata.a":"{{ index 1 }"}`: `metadata.a`,
		})
}

// TestBatchSize checks that a request has fewer bytes than the server accepts in a second by default.
func TestBatchSize(t *testing.T) {
	if got := (&loki.Destination{}).Parameters()["batch.maxBytes"].Default; got != "1048576" {
		t.Errorf("the default is %s", got)
	}
}

// TestContract checks the contract of a destination.
func TestContract(t *testing.T) {
	servers := sync.Map{}
	plugintest.Run(t, plugintest.Target{
		Connector: loki.Connector(),
		Destination: func(t testing.TB) map[string]string {
			s := serve(t)
			servers.Store(s.URL, s)
			return map[string]string{"url": s.URL, "labels.job": "app"}
		},
		Written: func(t testing.TB, settings map[string]string) (all []string) {
			s, _ := servers.Load(settings["url"])
			for _, b := range s.(*server).bodies {
				for _, stream := range b.Streams {
					for _, value := range stream.Values {
						var line string
						_ = json.Unmarshal(value[1], &line)
						all = append(all, line)
					}
				}
			}
			return all
		},
	})
}
