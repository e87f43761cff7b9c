package elasticsearch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/elasticsearch"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/elastic"
	"github.com/conduit-agent/conduit/plugins/record"
)

// reach returns an open destination that connects to the address in settings.
func reach(t *testing.T, settings map[string]string) *elasticsearch.Destination {
	t.Helper()
	return builtintest.Open(t, &elasticsearch.Destination{}, settings)
}

func raw(text string) record.Data { return record.Raw([]byte(text)) }

// newRecord returns a record of the collection t.
func newRecord(op record.Operation, key, after record.Data) record.Record {
	return record.Record{Position: record.Position("p"), Operation: op, Key: key, After: after,
		Metadata: record.NewMetadata(map[string]string{record.KeyCollection: "t", "team": "a b",
			record.KeyReadAt: "1700000000123000000"})}
}

// TestDocuments checks the operation of each kind of record.
func TestDocuments(t *testing.T) {
	const number = "4cf5af027d9a949a881e505bd7c7b14c" // of the position p
	key := func(id any) record.Data { return record.Structured(map[string]any{"id": id}) }
	one, none := key(7), record.Data{}
	two := record.Structured(map[string]any{"b": "x", "a": []byte{0xff}})
	made := func(key, after record.Data) record.Record { return newRecord(record.OperationCreate, key, after) }
	fields := func(name string, value any) record.Data { return record.Structured(map[string]any{name: value}) }
	type set = map[string]string
	for name, c := range map[string]struct {
		settings set
		record   record.Record
		want     string // operation, index, id and document, or a part of the error
	}{
		"key":        {nil, made(one, raw(`{"a":1}`)), `index t 7 {"a":1}`},
		"key of two": {nil, newRecord(record.OperationUpdate, two, raw(`{}`)), `index t {"a":"/w==","b":"x"} {}`},
		"raw key": {nil, newRecord(record.OperationSnapshot, raw("12"), raw(`{}`)),
			"index t " + number + " {}"},
		"no key":    {nil, made(none, raw(`{}`)), "index t " + number + " {}"},
		"empty key": {nil, made(key(""), raw(`{}`)), "id of the document is empty"},
		"long key": {nil, made(key(strings.Repeat("k", 513)), raw(`{}`)),
			"index t 45a7c7ef95c3417e800362f5672aba16da807261fe7121f3a81b0a0fb6b9a05c {}"},
		"longest key": {nil, made(key(strings.Repeat("k", 512)), raw(`{}`)),
			"index t " + strings.Repeat("k", 512) + " {}"},
		"delete":      {nil, newRecord(record.OperationDelete, one, none), "delete t 7 "},
		"tombstone":   {nil, newRecord(record.OperationUpdate, one, none), "delete t 7 "},
		"delete, raw": {nil, newRecord(record.OperationDelete, raw("7"), none), "set id to a template"},
		"delete, id": {set{"id": `x-{{ printf "%s" .Key }}`}, newRecord(record.OperationDelete, raw("7"), none),
			"delete t x-7 "},
		"id": {set{"id": "{{ .Payload.After.a }}"}, made(none, fields("a", 1)), `index t 1 {"a":1}`},
		"index": {set{"index": "i-{{ index .Metadata \"opencdc.collection\" }}"}, made(one, raw(`{}`)),
			"index i-t 7 {}"},
		"wrong index": {set{"index": "{{ .Metadata.team }}"}, made(one, raw(`{}`)), "must not contain spaces"},
		"capitals":    {set{"index": "{{ .Metadata.team | upper }}"}, made(one, raw(`{}`)), "must be lowercase"},
		"line":        {nil, made(raw("1"), raw("a \"b\"\n")), "index t " + number + ` {"message":"a \"b\"\n"}`},
		"other message": {set{"message.field": "log"}, made(raw("1"), raw("[1]")),
			"index t " + number + ` {"log":"[1]"}`},
		"many lines": {nil, made(one, raw("{\n \"a\": 1\n}\n")), `index t 7 {"a":1}`},
		"bytes":      {nil, made(raw("1"), raw("\xff")), "neither structured nor UTF-8"},
		"time": {set{"timestamp.field": "at"}, made(one, fields("a", 1)),
			`index t 7 {"at":"2023-11-14T22:13:20.123Z","a":1}`},
		"time there": {set{"timestamp.field": "at"}, made(one, raw(`{"at":null}`)), `index t 7 {"at":null}`},
		"stream": {set{"dataStream": "true"}, made(one, raw(`{}`)),
			"create t " + number + ` {"@timestamp":"2023-11-14T22:13:20.123Z"}`},
		"stream, time": {set{"dataStream": "true"}, made(one, fields("@timestamp", "x")),
			"create t " + number + ` {"@timestamp":"x"}`},
		"stream delete": {set{"dataStream": "true"}, newRecord(record.OperationDelete, one, none),
			"documents of a data stream are only added"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := &elastic.Server{Refuse: func(o elastic.Operation) (elastic.Result, bool) {
				got = append(got, fmt.Sprintf("%s %s %s %s", o.Kind, o.Index, o.ID, o.Document))
				return elastic.Result{Status: http.StatusOK}, true
			}}
			at := httptest.NewServer(s)
			defer at.Close()
			settings := map[string]string{"url": at.URL}
			maps.Copy(settings, c.settings)
			builtintest.CheckWrite(t, reach(t, settings), c.record, func() []string { return got }, c.want)
		})
	}
}

// TestResults checks the outcome of each kind of result.
func TestResults(t *testing.T) {
	for text, want := range map[string]string{
		`{"index":{"status":200}}`:  "",
		`{"create":{"status":409}}`: "",
		`{"delete":{"status":404}}`: "",
		`{"delete":{"status":404,"error":{"type":"index_not_found_exception","reason":"no such index"}}}`: "",
		`{"index":{"status":400,"error":{"type":"a","reason":"b","caused_by":{"type":"c","reason":"d"}}}}`: "refused: " +
			"status 400: a: b: d",
		`{"index":{"status":400,"error":"text"}}`:          "refused: status 400: error: text",
		`{"index":{"status":409,"error":{"type":"a"}}}`:    "refused: status 409: a: ",
		`{"index":{"status":404,"error":{"type":"a"}}}`:    "lost: no such index, with status 404: a: ",
		`{"index":{"status":403,"error":{"type":"a"}}}`:    "lost: the right to create and write the index",
		`{"index":{"status":429,"error":{"type":"a"}}}`:    "lost: status 429: a",
		`{"index":{"status":503,"error":{"type":"a"}}}`:    "lost: status 503: a",
		`{"index":{"error":{"type":"a"}}}`:                 "lost: has no status",
		`{"index":{"status":200}},{"index":{"status":200}`: "lost: more than 1 results",
		``:                           "lost: 0 results for 1 operations",
		`1`:                          "lost: check url",
		`{}`:                         "lost: check url",
		`{"index":{"status"`:         "lost: not the complete response",
		`{"index":{"status":"200"}}`: "lost: not the complete response",
	} {
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"took":1,"items":[%s]}`, text)
		}))
		d := reach(t, map[string]string{"url": at.URL, "index": "t", "retry.timeout": "0s"})
		n, err := d.Write(t.Context(), []record.Record{newRecord(record.OperationCreate, record.Data{}, raw("{}"))})
		kind, part, _ := strings.Cut(want, ": ")
		if want == "" && (n != 1 || err != nil) || want != "" && (n != 0 || err == nil ||
			builtintest.Lost(err) != (kind == "lost") || !strings.Contains(err.Error(), part)) {
			t.Errorf("%s: wrote %d: %v, want %q", text, n, err, want)
		}
		at.Close()
	}
}

// TestHostileResponses checks that the memory for a response is bounded, whatever it contains.
func TestHostileResponses(t *testing.T) {
	for name, text := range map[string][2]string{
		"empty results": {`{"items":[`, `{},`}, "statuses": {`{"items":[`, `{"a":{"status":1}},`},
		"nested": {`{"items":[{"a":`, `[`}, "nested outside": {`{"x":`, `[`},
		"fields": {`{`, `"x":0,`}, "reason": {`{"items":[{"a":{"status":400,"error":"`, "x"},
		"number": {`{"items":[{"a":{"status":`, "1"}, "text": {"", "x"}, "spaces": {"", " "},
	} {
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, text[0])
			block := strings.Repeat(text[1], 64<<10/len(text[1]))
			for range 120 {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}))
		d := reach(t, map[string]string{"url": at.URL, "retry.timeout": "0s"})
		before := allocated()
		n, err := d.Write(t.Context(), []record.Record{newRecord(record.OperationCreate, record.Data{}, raw("{}"))})
		if n != 0 || !builtintest.Lost(err) || len(err.Error()) > 1000 {
			t.Errorf("%s: wrote %d: %.1100v", name, n, err)
		}
		if took := allocated() - before; took > 100<<20 {
			t.Errorf("%s: %d bytes were allocated", name, took)
		}
		at.Close()
	}
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestRequests checks the URL, the credentials and the index template of the requests.
func TestRequests(t *testing.T) {
	var got []string
	status := 503
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Authorization"),
			r.Header.Get("X-Own"), r.Header.Get("Content-Type"), string(body[:2])}, " "))
		if w.WriteHeader(status); r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"errors":false,"items":[{"index":{"status":201}}]}`)
		}
		_, _ = io.WriteString(w, "key ABCDEF")
	}))
	defer at.Close()
	all := []record.Record{newRecord(record.OperationCreate, record.Data{}, raw("{}"))}
	d := reach(t, map[string]string{"url": at.URL + "/base/?x=y", "auth.apiKey": "ABCDEF", "headers.X-Own": "own",
		"indexTemplate.name": "logs", "indexTemplate.body": `{"index_patterns":["logs-*"]}`, "retry.timeout": "0s"})
	n, err := d.Write(t.Context(), all)
	if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), `cannot store the index template "logs"`) ||
		strings.Contains(err.Error(), "ABCDEF") {
		t.Errorf("wrote %d: %v", n, err)
	}
	status = 400
	if n, err = d.Write(t.Context(), all); n != 0 || !builtintest.Lost(err) ||
		!strings.Contains(err.Error(), "status 400") {
		t.Errorf("wrote %d: %v", n, err)
	}
	status = 200
	for range 2 {
		if n, err = d.Write(t.Context(), all); n != 1 || err != nil {
			t.Errorf("wrote %d: %v", n, err)
		}
	}
	const template = `PUT /base/_index_template/logs?x=y ApiKey ABCDEF own application/json {"`
	const write = `POST /base/_bulk?filter_path=errors%2Citems.%2A.status%2Citems.%2A.error&x=y ApiKey ABCDEF own ` +
		`application/x-ndjson {"`
	if want := []string{template, template, template, write, write}; !slices.Equal(got, want) {
		t.Errorf("the requests are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSettings checks that wrong settings are refused, with the setting to change.
func TestSettings(t *testing.T) {
	builtintest.CheckSettings(t, elasticsearch.Connector().NewDestination,
		map[string]string{"url": "http://h"}, map[string]string{
			`{"url":"h:9200"}`: `"url"`,
			`{"index":"Logs"}`: `"index": the name of the index, "Logs", must be lowercase`,
			`{"index":"-a"}`:   `must not begin with`,
			`{"index":"a*"}`:   `must not contain`,
			`{"index":"` + strings.Repeat("a", 256) + `"}`: `more than 255 bytes`,
			`{"id":"{{ .Key"}`:                                           `"id"`,
			`{"indexTemplate.name":"a"}`:                                 `indexTemplate.body`,
			`{"indexTemplate.body":"{}"}`:                                `indexTemplate.name`,
			`{"indexTemplate.name":"a","indexTemplate.body":"[]"}`:       `must be a JSON object`,
			`{"auth.apiKey":"a","auth.token":"b"}`:                       `auth.apiKey`,
			`{"auth.apiKey":"a\nb"}`:                                     `auth.apiKey`,
			`{"auth.token":"a","auth.username":"b","auth.password":"c"}`: `auth.token`,
			`{"tls.ca":"x"}`:                                             `tls.ca`,
			`{"headers.X-A":"a\nb"}`:                                     `headers.X-A`,
		})
}

// TestTLS checks the remedies for wrong certificates.
func TestTLS(t *testing.T) {
	at := httptest.NewUnstartedServer(&elastic.Server{})
	at.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	at.StartTLS()
	defer at.Close()
	plain := httptest.NewServer(&elastic.Server{})
	defer plain.Close()
	for url, want := range map[string]string{at.URL: "set tls.ca",
		strings.Replace(plain.URL, "http:", "https:", 1): "set url to http://"} {
		d := reach(t, map[string]string{"url": url, "retry.timeout": "0s"})
		n, err := d.Write(t.Context(), []record.Record{newRecord(record.OperationCreate, record.Data{}, raw("{}"))})
		if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("wrote %d: %v, want %q", n, err, want)
		}
	}
}

// TestContract checks the contract of a destination.
func TestContract(t *testing.T) {
	servers := sync.Map{}
	plugintest.Run(t, plugintest.Target{
		Connector: elasticsearch.Connector(),
		Destination: func(t testing.TB) map[string]string {
			s := &elastic.Server{}
			at := httptest.NewServer(s)
			t.Cleanup(at.Close)
			servers.Store(at.URL, s)
			return map[string]string{"url": at.URL, "index": "t"}
		},
		Written: func(t testing.TB, settings map[string]string) (all []string) {
			s, _ := servers.Load(settings["url"])
			for _, o := range s.(*elastic.Server).Documents() {
				var d struct{ Message *string }
				if json.Unmarshal(o.Document, &d) == nil && d.Message != nil {
					all = append(all, *d.Message)
				} else {
					all = append(all, string(o.Document))
				}
			}
			return all
		},
	})
}
