package splunk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins/builtin/splunk"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
)

// collector is a server with the API of the HTTP Event Collector.
type collector struct {
	mu      sync.Mutex
	events  []json.RawMessage                                 // guarded by mu: indexed
	pending map[int64][]json.RawMessage                       // guarded by mu: by ackId
	lastID  int64                                             // guarded by mu
	asked   int                                               // guarded by mu: questions for acknowledgements
	headers []string                                          // guarded by mu: of requests with events
	ack     bool                                              // the token has indexer acknowledgement
	index   func(asked int) bool                              // whether a question finds the events indexed; nil: yes
	refuse  func(events []json.RawMessage) (status, code int) // nil: nothing
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := func(status int, format string, args ...any) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, format, args...)
	}
	channel := r.Header.Get("X-Splunk-Request-Channel")
	path := strings.TrimPrefix(r.URL.Path, "/base")
	switch {
	case r.Header.Get("Authorization") != "Splunk secret":
		answer(http.StatusForbidden, `{"text":"Invalid token %s","code":4}`,
			strings.TrimPrefix(r.Header.Get("Authorization"), "Splunk "))
	case c.ack && channel == "":
		answer(http.StatusBadRequest, `{"text":"Data channel is missing","code":10}`)
	case !c.ack && channel != "":
		answer(http.StatusBadRequest, `{"text":"ACK is disabled","code":14}`)
	case path == "/services/collector/ack":
		var question struct{ Acks []int64 }
		_ = json.NewDecoder(r.Body).Decode(&question)
		c.asked++
		indexed := r.URL.Query().Get("channel") == channel && (c.index == nil || c.index(c.asked))
		if id := question.Acks[0]; indexed {
			c.events = append(c.events, c.pending[id]...)
			delete(c.pending, id)
		}
		answer(http.StatusOK, `{"acks":{"%d":%t}}`, question.Acks[0], indexed)
	case path == "/services/collector/event":
		c.headers = append(c.headers, r.URL.String()+" "+r.Header.Get("X-Own"))
		c.take(answer, r.Body)
	default:
		answer(http.StatusNotFound, `{"text":"The requested URL was not found on this server.","code":404}`)
	}
}

// take takes the events of a request.
func (c *collector) take(answer func(int, string, ...any), body io.Reader) {
	var events []json.RawMessage
	for d := json.NewDecoder(body); ; {
		var event json.RawMessage
		err := d.Decode(&event)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			answer(http.StatusBadRequest, `{"text":"Invalid data format","code":6,"invalid-event-number":%d}`, len(events))
			return
		}
		events = append(events, event)
	}
	if c.refuse != nil {
		if status, code := c.refuse(events); status != 0 {
			answer(status, `{"text":"refused","code":%d}`, code)
			return
		}
	}
	if !c.ack {
		c.events = append(c.events, events...)
		answer(http.StatusOK, `{"text":"Success","code":0}`)
		return
	}
	c.lastID++
	if c.pending == nil {
		c.pending = map[int64][]json.RawMessage{}
	}
	c.pending[c.lastID] = events
	answer(http.StatusOK, `{"text":"Success","code":0,"ackId":%d}`, c.lastID)
}

// written returns the events without time.
func (c *collector) written() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, event := range c.events {
		all = append(all, string(event))
	}
	return all
}

// open returns an open destination.
func open(t *testing.T, settings map[string]string) *splunk.Destination {
	t.Helper()
	if settings["auth.hecToken"] == "" {
		settings["auth.hecToken"] = "secret"
	}
	return builtintest.Open(t, &splunk.Destination{}, settings)
}

func newRecord(after record.Data, team string) record.Record {
	return record.Record{Position: record.Position("p"), Operation: record.OperationCreate, After: after,
		Metadata: record.NewMetadata(map[string]string{"team": team, record.KeyReadAt: "1700000000012300000"})}
}

func raw(text string) record.Data { return record.Raw([]byte(text)) }

// TestEvents checks the event of each kind of record.
func TestEvents(t *testing.T) {
	type set = map[string]string
	const time = `"time":1700000000.012300000,`
	for name, c := range map[string]struct {
		settings set
		record   record.Record
		want     string // or a part of the error
	}{
		"text":   {nil, newRecord(raw("a \"b\"\n"), ""), `{` + time + `"event":"a \"b\"\n"}`},
		"object": {nil, newRecord(record.Structured(map[string]any{"a": 1}), ""), `{` + time + `"event":{"a":1}}`},
		"json":   {nil, newRecord(raw("{\n\"a\": 1}"), ""), `{` + time + `"event":{"a":1}}`},
		"array":  {nil, newRecord(raw("[1]"), ""), `{` + time + `"event":"[1]"}`},
		"empty":  {nil, newRecord(raw(" \n"), ""), "refuses empty events"},
		"none":   {nil, newRecord(record.Data{}, ""), "no payload after the change"},
		"bytes":  {nil, newRecord(raw("\xff"), ""), "neither structured nor UTF-8"},
		"members": {set{"index": "web", "host": "{{ .Metadata.team }}", "source": "s", "sourcetype": "t"},
			newRecord(raw("x"), "h\"1"), `{` + time +
				`"host":"h\"1","index":"web","source":"s","sourcetype":"t","event":"x"}`},
		"empty host": {set{"host": "{{ .Metadata.team }}"}, newRecord(raw("x"), ""), `{` + time + `"event":"x"}`},
		"fields": {set{"fields.team": "{{ .Metadata.team }}", "fields.a": "b"}, newRecord(raw("x"), "w"),
			`{` + time + `"fields":{"a":"b","team":"w"},"event":"x"}`},
		"empty fields": {set{"fields.team": "{{ .Metadata.team }}"}, newRecord(raw("x"), ""),
			`{` + time + `"fields":{},"event":"x"}`},
		"missing":       {set{"host": "{{ .Metadata.none }}"}, newRecord(raw("x"), ""), "template of host"},
		"missing field": {set{"fields.a": "{{ .Metadata.none }}"}, newRecord(raw("x"), ""), "template of fields.a"},
		"no time": {nil, record.Record{Position: record.Position("p"), After: raw("x")},
			`{"event":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &collector{}
			at := httptest.NewServer(s)
			defer at.Close()
			settings := set{"url": at.URL}
			maps.Copy(settings, c.settings)
			builtintest.CheckWrite(t, open(t, settings), c.record, s.written, c.want)
		})
	}
}

// numbered returns records with numbers as text.
func numbered(n int) (all []record.Record) {
	for i := range n {
		all = append(all, newRecord(raw(fmt.Sprint("event ", i)), ""))
	}
	return all
}

// TestRequests checks that a request has several events, and its URL and headers.
func TestRequests(t *testing.T) {
	s := &collector{}
	at := httptest.NewServer(s)
	defer at.Close()
	d := open(t, map[string]string{"url": at.URL + "/base?x=y", "headers.X-Own": "own", "batch.maxRecords": "3"})
	if n, err := d.Write(t.Context(), numbered(5)); n != 5 || err != nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	const want = "/base/services/collector/event?x=y own"
	if !slices.Equal(s.headers, []string{want, want}) || len(s.written()) != 5 {
		t.Errorf("the requests are %q", s.headers)
	}
}

// TestRefusals checks that exactly the events that the collector refuses are refused.
func TestRefusals(t *testing.T) {
	s := &collector{refuse: func(events []json.RawMessage) (int, int) {
		if slices.ContainsFunc(events, func(e json.RawMessage) bool { return bytes.Contains(e, []byte("event 7")) }) {
			return http.StatusBadRequest, 7
		}
		return 0, 0
	}}
	at := httptest.NewServer(s)
	defer at.Close()
	d := open(t, map[string]string{"url": at.URL, "index": "{{ .Metadata.team }}"})
	all := numbered(12)
	n, err := d.Write(t.Context(), all)
	if n != 7 || err == nil || builtintest.Lost(err) || !strings.Contains(err.Error(), `refused`) {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if n, err := d.Write(t.Context(), all[8:]); n != 4 || err != nil || len(s.written()) != 11 {
		t.Errorf("wrote %d: %v; %d events", n, err, len(s.written()))
	}
}

// TestDenials checks which responses are no record's fault.
func TestDenials(t *testing.T) {
	for name, c := range map[string]struct {
		collector *collector
		settings  map[string]string
		want      string
	}{
		"token":        {&collector{}, map[string]string{"auth.hecToken": "other-secret"}, "correct auth.hecToken"},
		"no ack":       {&collector{}, map[string]string{"acknowledge": "true"}, "set acknowledge to false"},
		"ack":          {&collector{ack: true}, nil, "set acknowledge to true"},
		"path":         {&collector{}, map[string]string{"path": "/services/other"}, "url"},
		"index":        {&collector{refuse: always(400, 7)}, map[string]string{"index": "none"}, "correct index"},
		"disabled":     {&collector{refuse: always(403, 1)}, nil, "enable the token"},
		"busy":         {&collector{refuse: always(503, 9)}, nil, "503"},
		"wrong format": {&collector{refuse: always(400, 6)}, nil, "url may be wrong"},
		"odd":          {&collector{refuse: always(200, 9)}, nil, "it has the code 9"},
		"proxy":        {&collector{refuse: always(204, 0)}, nil, "check url"},
	} {
		t.Run(name, func(t *testing.T) {
			at := httptest.NewServer(c.collector)
			defer at.Close()
			settings := map[string]string{"url": at.URL + c.settings["path"], "retry.timeout": "0s"}
			for name, value := range c.settings {
				if name != "path" {
					settings[name] = value
				}
			}
			n, err := open(t, settings).Write(t.Context(), numbered(2))
			if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
	}
}

func always(status, code int) func([]json.RawMessage) (int, int) {
	return func([]json.RawMessage) (int, int) { return status, code }
}

// TestAcknowledgement checks that records are written only when the indexers have acknowledged them, and are sent again
// when they do not.
func TestAcknowledgement(t *testing.T) {
	for name, c := range map[string]struct {
		index    func(asked int) bool
		requests int // at least
		err      string
	}{
		"at once": {nil, 1, ""},
		"later":   {func(asked int) bool { return asked > 3 }, 1, ""},
		// 10 s are 8 questions.
		"sent again": {func(asked int) bool { return asked > 10 }, 2, ""},
		// The pauses between requests are random.
		"never": {func(int) bool { return false }, 5, "have not acknowledged the events within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &collector{ack: true, index: c.index}
				d := open(t, map[string]string{"url": "http://h", "acknowledge": "true", "acknowledge.timeout": "10s",
					"retry.timeout": "1m"})
				d.Sink.Client.Transport.DialContext = network.ServePipes(t, s).Dial
				n, err := d.Write(t.Context(), numbered(3))
				if got := len(s.headers); got < c.requests || c.err == "" && got > c.requests {
					t.Errorf("there were %d requests, want %d", got, c.requests)
				}
				if c.err != "" {
					if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), c.err) {
						t.Errorf("wrote %d: %v", n, err)
					}
				} else if n != 3 || err != nil || len(s.written()) != 3 {
					t.Errorf("wrote %d: %v, %d events", n, err, len(s.written()))
				}
			})
		})
	}
}

// TestSettings checks that wrong settings are refused, with the setting to change.
func TestSettings(t *testing.T) {
	builtintest.CheckSettings(t, splunk.Connector().NewDestination,
		map[string]string{"url": "http://h", "auth.hecToken": "x"}, map[string]string{
			`{"url":"h:8088"}`:         `"url"`,
			`{"index":"{{ .Key"}`:      `"index"`,
			`{"fields.a":"{{ .Key"}`:   `"fields.a"`,
			`{"auth.hecToken":"a\nb"}`: `auth.hecToken`,
			`{"auth.token":"a"}`:       `auth.hecToken`,
			`{"headers.X-A":"a\nb"}`:   `headers.X-A`,
			`{"tls.ca":"x"}`:           `tls.ca`,
		})
}

// TestContract checks the contract of a destination.
func TestContract(t *testing.T) {
	servers := sync.Map{}
	plugintest.Run(t, plugintest.Target{
		Connector: splunk.Connector(),
		Destination: func(t testing.TB) map[string]string {
			s := &collector{ack: true}
			at := httptest.NewServer(s)
			t.Cleanup(at.Close)
			servers.Store(at.URL, s)
			return map[string]string{"url": at.URL, "auth.hecToken": "secret", "acknowledge": "true"}
		},
		Written: func(t testing.TB, settings map[string]string) (all []string) {
			s, _ := servers.Load(settings["url"])
			for _, event := range s.(*collector).written() {
				var e struct{ Event json.RawMessage }
				_ = json.Unmarshal([]byte(event), &e)
				var text string
				if json.Unmarshal(e.Event, &text) != nil {
					text = string(e.Event)
				}
				all = append(all, text)
			}
			return all
		},
	})
}
