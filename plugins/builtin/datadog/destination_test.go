package datadog_test

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

	"github.com/conduit-agent/conduit/plugins/builtin/datadog"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

// server has the API for logs.
type server struct {
	mu     sync.Mutex
	logs   []json.RawMessage                // guarded by mu
	got    []string                         // guarded by mu: requests
	refuse func(logs []json.RawMessage) int // status; nil: 202
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var logs []json.RawMessage
	status := http.StatusAccepted
	switch err := json.Unmarshal(body, &logs); {
	case r.Header.Get("DD-API-KEY") != "secret":
		status = http.StatusForbidden
	case err != nil:
		status = http.StatusBadRequest
	case s.refuse != nil:
		status = s.refuse(logs)
	}
	s.got = append(s.got, fmt.Sprint(r.URL, " ", r.Header.Get("Content-Type"), " ", r.Header.Get("X-Own"), " ", len(logs)))
	if status == http.StatusAccepted {
		s.logs = append(s.logs, logs...)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"errors":[{"detail":"secret"}]}`)
}

func (s *server) written() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, log := range s.logs {
		all = append(all, string(log))
	}
	return all
}

// open returns an open destination.
func open(t *testing.T, settings map[string]string) *datadog.Destination {
	t.Helper()
	if settings["auth.apiKey"] == "" {
		settings["auth.apiKey"] = "secret"
	}
	return builtintest.Open(t, &datadog.Destination{}, settings)
}

func newRecord(after record.Data, team string) record.Record {
	return record.Record{Position: record.Position("p"), Operation: record.OperationCreate, After: after,
		Metadata: record.NewMetadata(map[string]string{"team": team, record.KeyReadAt: "1700000000012999999"})}
}

func raw(text string) record.Data { return record.Raw([]byte(text)) }

// TestLogs checks the log of each kind of record.
func TestLogs(t *testing.T) {
	type set = map[string]string
	const at = `"timestamp":1700000000012`
	all := set{"service": "web", "ddsource": "nginx", "hostname": "{{ .Metadata.team }}", "ddtags": "env:prod,a:b"}
	for name, c := range map[string]struct {
		settings set
		record   record.Record
		want     string // or a part of the error
	}{
		"text":   {nil, newRecord(raw("a \"b\"\n"), ""), `{` + at + `,"message":"a \"b\"\n"}`},
		"object": {nil, newRecord(record.Structured(map[string]any{"a": 1}), ""), `{` + at + `,"a":1}`},
		"json":   {nil, newRecord(raw("{\n\"a\": 1}"), ""), `{` + at + `,"a":1}`},
		"empty":  {nil, newRecord(raw("{}"), ""), `{` + at + `}`},
		"own time": {nil, newRecord(raw(`{"timestamp":"x"}`), ""),
			`{"timestamp":"x"}`},
		"message": {set{"message.field": "log"}, newRecord(raw("x"), ""), `{` + at + `,"log":"x"}`},
		"members": {all, newRecord(raw("x"), "h\"1"), `{` + at + `,"service":"web","ddsource":"nginx",` +
			`"hostname":"h\"1","ddtags":"env:prod,a:b","message":"x"}`},
		"own members": {all, newRecord(record.Structured(map[string]any{"service": "own", "ddtags": nil}), "h"),
			`{` + at + `,"ddsource":"nginx","hostname":"h","ddtags":null,"service":"own"}`},
		"empty host": {set{"hostname": "{{ .Metadata.team }}"}, newRecord(raw("x"), ""), `{` + at + `,"message":"x"}`},
		"none":       {nil, newRecord(record.Data{}, ""), "no payload after the change"},
		"bytes":      {nil, newRecord(raw("\xff"), ""), "neither structured nor UTF-8"},
		"missing":    {set{"service": "{{ .Metadata.none }}"}, newRecord(raw("x"), ""), "template of service"},
		"no time":    {nil, record.Record{Position: record.Position("p"), After: raw("x")}, `{"message":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			at := httptest.NewServer(s)
			defer at.Close()
			settings := set{"url": at.URL}
			maps.Copy(settings, c.settings)
			builtintest.CheckWrite(t, open(t, settings), c.record, s.written, c.want)
		})
	}
}

// TestRequests checks the requests, and that exactly the logs that the server refuses are refused.
func TestRequests(t *testing.T) {
	s := &server{refuse: func(logs []json.RawMessage) int {
		if slices.ContainsFunc(logs, func(l json.RawMessage) bool { return strings.Contains(string(l), `"log 3"`) }) {
			return http.StatusBadRequest
		}
		return http.StatusAccepted
	}}
	at := httptest.NewServer(s)
	defer at.Close()
	d := open(t, map[string]string{"url": at.URL + "/base?x=y", "headers.X-Own": "own", "batch.maxRecords": "2"})
	var all []record.Record
	for i := range 6 {
		all = append(all, newRecord(raw(fmt.Sprint("log ", i)), ""))
	}
	n, err := d.Write(t.Context(), all)
	if n != 3 || err == nil || builtintest.Lost(err) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if n, err = d.Write(t.Context(), all[4:]); n != 2 || err != nil || len(s.written()) != 5 {
		t.Errorf("wrote %d: %v", n, err)
	}
	const request = "/base/api/v2/logs?x=y application/json own "
	want := []string{request + "2", request + "2", request + "1", request + "1", request + "2"}
	if !slices.Equal(s.got, want) {
		t.Errorf("the requests are %q, want %q", s.got, want)
	}
}

// TestDenials checks which responses are no record's fault.
func TestDenials(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		settings map[string]string
		want     string
	}{
		"key":       {202, map[string]string{"auth.apiKey": "other"}, "auth.*"},
		"path":      {404, nil, "check the path in url"},
		"rate":      {429, nil, "429"},
		"starting":  {503, nil, "503"},
		"wrong url": {400, nil, "url may be wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(&server{refuse: func([]json.RawMessage) int { return c.status }})
			defer at.Close()
			settings := map[string]string{"url": at.URL, "retry.timeout": "0s"}
			for name, value := range c.settings {
				settings[name] = value
			}
			n, err := open(t, settings).Write(t.Context(), []record.Record{newRecord(raw("x"), "")})
			if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
	}
}

// TestSettings checks that wrong settings are refused, with the setting to change.
func TestSettings(t *testing.T) {
	builtintest.CheckSettings(t, datadog.Connector().NewDestination,
		map[string]string{"auth.apiKey": "x"}, map[string]string{
			`{"url":"h"}`:                 `"url"`,
			`{"service":"{{ .Key"}`:       `"service"`,
			`{"auth.apiKey":"a\nb"}`:      `auth.apiKey`,
			`{"auth.username":"a"}`:       `auth.apiKey`,
			`{"batch.maxRecords":"1001"}`: `batch.maxRecords`,
			`{"headers.X-A":"a\nb"}`:      `headers.X-A`,
			`{"tls.ca":"x"}`:              `tls.ca`,
		})
}

// TestContract checks the contract of a destination.
func TestContract(t *testing.T) {
	servers := sync.Map{}
	plugintest.Run(t, plugintest.Target{
		Connector: datadog.Connector(),
		Destination: func(t testing.TB) map[string]string {
			s := &server{}
			at := httptest.NewServer(s)
			t.Cleanup(at.Close)
			servers.Store(at.URL, s)
			return map[string]string{"url": at.URL, "auth.apiKey": "secret"}
		},
		Written: func(t testing.TB, settings map[string]string) (all []string) {
			s, _ := servers.Load(settings["url"])
			for _, log := range s.(*server).written() {
				var l struct{ Message *string }
				if json.Unmarshal([]byte(log), &l) == nil && l.Message != nil {
					all = append(all, *l.Message)
				} else {
					all = append(all, log)
				}
			}
			return all
		},
	})
}
