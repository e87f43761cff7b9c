package influxdb_test

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/influxdb"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

// server keeps the points it accepts.
type server struct {
	mu     sync.Mutex
	points []string              // guarded by mu
	got    []string              // guarded by mu: requests
	refuse func(body string) int // status; nil: 204
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	status := http.StatusNoContent
	if s.refuse != nil {
		status = s.refuse(string(body))
	}
	s.got = append(s.got, fmt.Sprint(r.URL, " ", r.Header.Get("Authorization")))
	if status == http.StatusNoContent {
		s.points = append(s.points, strings.SplitAfter(strings.TrimSuffix(string(body), "\n"), "\n")...)
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_, _ = io.WriteString(w, `{"error":"why it is refused, token secret"}`)
	}
}

// written returns the points.
func (s *server) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.points)
}

// open returns an open destination.
func open(t *testing.T, settings map[string]string) *influxdb.Destination {
	t.Helper()
	return builtintest.Open(t, &influxdb.Destination{}, settings)
}

func newRecord(after record.Data, room string) record.Record {
	return record.Record{Position: record.Position("p"), Operation: record.OperationCreate, After: after,
		Metadata: record.NewMetadata(map[string]string{"room": room, record.KeyCollection: "t",
			record.KeyReadAt: "1700000000012345678"})}
}

func raw(text string) record.Data { return record.Raw([]byte(text)) }

func object(m map[string]any) record.Data { return record.Structured(m) }

// TestPoints checks the line of each kind of record.
func TestPoints(t *testing.T) {
	type set = map[string]string
	type values = map[string]any
	const at = " 1700000000012345678"
	a := object(values{"a": 1})
	for name, c := range map[string]struct {
		settings set
		record   record.Record
		want     string // or a part of the error
	}{
		"integers": {nil, newRecord(object(values{"a": 1, "b": int8(-2), "c": uint64(math.MaxUint64), "d": uint16(3)}), ""),
			"t a=1,b=-2,c=1.8446744073709552e+19,d=3" + at},
		"typed integers": {set{"fields.integers": "integer"}, newRecord(object(values{"a": 1, "b": int8(-2), "f": 1.0}), ""),
			"t a=1i,b=-2i,f=1" + at},
		"large integer": {set{"fields.integers": "integer"}, newRecord(object(values{"a": uint64(math.MaxUint64)}), ""),
			`its field "a" is wrong: the number "18446744073709551615" is too large`},
		"floats": {nil, newRecord(object(values{"a": 1.5, "b": float32(0.25), "c": math.NaN(), "d": math.Inf(1)}), ""),
			"t a=1.5,b=0.25" + at},
		"others": {nil, newRecord(object(values{"a": true, "b": nil, "c": []any{1, "x"}, "d": []byte("x"),
			"e": time.Unix(0, 0).UTC()}), ""), `t a=true,c="[1,\"x\"]",d="eA==",e="1970-01-01T00:00:00Z"` + at},
		"text":    {nil, newRecord(object(values{"a": `q"b\c`}), ""), `t a="q\"b\\c"` + at},
		"no text": {nil, newRecord(object(values{"a": "\xff"}), ""), "not UTF-8"},
		"nested": {nil, newRecord(object(values{"a": values{"b": 1, "c": values{"d": 2}}}), ""),
			"t a.b=1,a.c.d=2" + at},
		"json":         {nil, newRecord(raw("{\"a\": 12, \"b\": 1e3}"), ""), "t a=12,b=1000" + at},
		"json integer": {set{"fields.integers": "integer"}, newRecord(raw(`{"a":12,"b":1.0}`), ""), "t a=12i,b=1" + at},
		"huge":         {nil, newRecord(raw(`{"a":1e999}`), ""), "is too large"},
		"line":         {nil, newRecord(raw("a b"), ""), `t message="a b"` + at},
		"two objects":  {nil, newRecord(raw("{} {}"), ""), `t message="{} {}"` + at},
		"other message": {set{"message.field": "text"}, newRecord(raw("a b"), ""),
			`t text="a b"` + at},
		"none":  {nil, newRecord(record.Data{}, ""), "no payload after the change"},
		"empty": {nil, newRecord(raw("{}"), ""), "no member for a field"},
		"only": {set{"fields": "a,b.c"}, newRecord(object(values{"a": 1, "x": 2, "b": values{"c": 3, "d": 4}}), ""),
			"t a=1,b.c=3" + at},
		"only an object": {set{"fields": "b"}, newRecord(object(values{"a": 1, "b": values{"c": 3, "d": 4}}), ""),
			"t b.c=3,b.d=4" + at},
		"without": {set{"fields.exclude": "a,b.c"}, newRecord(object(values{"a": values{"x": 1}, "x": 2,
			"b": values{"c": 3, "d": 4}}), ""), "t b.d=4,x=2" + at},
		"tags": {set{"tags.room": "{{ .Metadata.room }}", "tags.a b": "x"}, newRecord(a, "r 1,2=3"),
			`t,a\ b=x,room=r\ 1\,2\=3 a=1` + at},
		"empty tag":        {set{"tags.room": "{{ .Metadata.room }}"}, newRecord(a, ""), "t a=1" + at},
		"wrong tag":        {set{"tags.room": "{{ .Metadata.room }}"}, newRecord(a, "a\nb"), "control character"},
		"tag with a slash": {set{"tags.room": "{{ .Metadata.room }}"}, newRecord(a, `a\`), "backslash"},
		"measurement":      {set{"measurement": "m-{{ .Metadata.room }}"}, newRecord(a, "r 1,2=3"), `m-r\ 1\,2=3 a=1` + at},
		"comment":          {set{"measurement": "{{ .Metadata.room }}"}, newRecord(a, "#1"), "begins a comment"},
		"no measurement": {set{"measurement": "{{ .Metadata.room }}"}, newRecord(a, ""),
			"measurement is wrong: it is empty"},
		"missing":     {set{"measurement": "{{ .Metadata.none }}"}, newRecord(a, ""), "template of measurement"},
		"missing tag": {set{"tags.a": "{{ .Metadata.none }}"}, newRecord(a, ""), "template of tags.a"},
		"field names": {nil, newRecord(object(values{"a b,c=d": 1}), ""), `t a\ b\,c\=d=1` + at},
		"time":        {nil, newRecord(object(values{"time": 1}), ""), "list it in fields.exclude"},
		"wrong field": {nil, newRecord(object(values{"a\nb": 1}), ""), "control character"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			at := httptest.NewServer(s)
			defer at.Close()
			settings := set{"url": at.URL, "org": "o", "bucket": "b"}
			maps.Copy(settings, c.settings)
			builtintest.CheckWrite(t, open(t, settings), c.record, s.written, c.want)
		})
	}
}

// TestRequests checks the URL and the credentials for each API.
func TestRequests(t *testing.T) {
	for api, c := range map[string]struct {
		settings map[string]string
		want     string
	}{
		"v1": {map[string]string{"database": "d", "auth.username": "u", "auth.password": "p"},
			"/base/write?db=d&precision=ns&x=y Basic dTpw"},
		"v1 policy": {map[string]string{"database": "d", "retentionPolicy": "week"},
			"/base/write?db=d&precision=ns&rp=week&x=y "},
		"v2": {map[string]string{"org": "o", "bucket": "b 1", "auth.token": "secret"},
			"/base/api/v2/write?bucket=b+1&org=o&precision=ns&x=y Token secret"},
		"v3": {map[string]string{"database": "d", "auth.token": "secret"},
			"/base/api/v3/write_lp?db=d&precision=nanosecond&x=y Bearer secret"},
	} {
		s := &server{}
		at := httptest.NewServer(s)
		c.settings["url"], c.settings["api"] = at.URL+"/base?x=y", api[:2]
		n, err := open(t, c.settings).Write(t.Context(), []record.Record{newRecord(raw("x"), ""), newRecord(raw("y"), "")})
		if n != 2 || err != nil || !slices.Equal(s.got, []string{c.want}) {
			t.Errorf("%s: wrote %d: %v, the requests are %q", api, n, err, s.got)
		}
		at.Close()
	}
}

// TestRefusals checks that exactly the points that the server refuses are refused.
func TestRefusals(t *testing.T) {
	s := &server{refuse: func(body string) int {
		if strings.Contains(body, "bad") {
			return http.StatusBadRequest
		}
		return http.StatusNoContent
	}}
	at := httptest.NewServer(s)
	defer at.Close()
	d := open(t, map[string]string{"url": at.URL, "org": "o", "bucket": "b", "tags.room": "{{ .Metadata.room }}",
		"series.max": "3"})
	var all []record.Record
	for _, room := range []string{"1", "2", "bad", "1", "4", "2"} {
		all = append(all, newRecord(raw("x"), room))
	}
	var refused []string
	for n := 0; n < len(all); {
		written, err := d.Write(t.Context(), all[n:])
		if n += written; err == nil {
			continue
		}
		if builtintest.Lost(err) {
			t.Fatal(err)
		}
		refused = append(refused, fmt.Sprint(n, " ", err))
		n++
	}
	if len(refused) != 2 || !strings.HasPrefix(refused[0], "2 the server refused the record") ||
		!strings.HasPrefix(refused[1], "4 ") || !strings.Contains(refused[1], "series.max") || len(s.points) != 4 {
		t.Errorf("refused are %q, and there are %d points", refused, len(s.points))
	}
}

// TestDenials checks which responses are no record's fault.
func TestDenials(t *testing.T) {
	for status, want := range map[int]string{
		404: "check that the bucket or the organization exists", 401: "auth.*", 429: "429", 503: "503",
		400: "url may be wrong",
	} {
		at := httptest.NewServer(&server{refuse: func(string) int { return status }})
		d := open(t, map[string]string{"url": at.URL, "org": "o", "bucket": "b", "retry.timeout": "0s",
			"auth.token": "secret"})
		n, err := d.Write(t.Context(), []record.Record{newRecord(raw("x"), "")})
		if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("wrote %d: %v", n, err)
		}
		at.Close()
	}
}

// TestSettings checks that wrong settings are refused, with the setting to change.
func TestSettings(t *testing.T) {
	builtintest.CheckSettings(t, influxdb.Connector().NewDestination,
		map[string]string{"url": "http://h", "org": "o", "bucket": "b"}, map[string]string{
			`{"url":"h"}`:                           `"url"`,
			`{"bucket":""}`:                         `"bucket": is required`,
			`{"org":""}`:                            `"org": is required`,
			`{"database":"d"}`:                      `"database": needs api v1 or v3`,
			`{"retentionPolicy":"r"}`:               `"retentionPolicy": needs api v1`,
			`{"api":"v1","org":"","bucket":""}`:     `"database": is required`,
			`{"api":"v3","org":"o","database":"d"}`: `"org": needs api v2`,
			`{"measurement":"#a"}`:                  `"measurement"`,
			`{"tags.a":"{{ .Key"}`:                  `"tags.a"`,
			`{"tags.time":"x"}`:                     `"tags.time"`,
			`{"auth.token":"a\nb"}`:                 `auth.token`,
			`{"tls.ca":"x"}`:                        `tls.ca`,
		})
}

// TestContract checks the contract of a destination.
func TestContract(t *testing.T) {
	servers := sync.Map{}
	plugintest.Run(t, plugintest.Target{
		Connector: influxdb.Connector(),
		Destination: func(t testing.TB) map[string]string {
			s := &server{}
			at := httptest.NewServer(s)
			t.Cleanup(at.Close)
			servers.Store(at.URL, s)
			return map[string]string{"url": at.URL, "org": "o", "bucket": "b"}
		},
		Written: func(t testing.TB, settings map[string]string) (all []string) {
			s, _ := servers.Load(settings["url"])
			for _, point := range s.(*server).written() {
				_, text, _ := strings.Cut(point, `message="`)
				end := strings.LastIndex(text, `"`)
				if end < 0 {
					t.Errorf("the point is %q", point)
					continue
				}
				all = append(all, text[:end])
			}
			return all
		},
	})
}
