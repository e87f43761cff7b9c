package prometheus_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/prometheus"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type set = map[string]string

// open returns an open destination.
func open(t testing.TB, settings set) *prometheus.Destination {
	t.Helper()
	return builtintest.Open(t, &prometheus.Destination{}, settings)
}

// newRecord returns a record with a payload and a time in milliseconds.
func newRecord(position string, ms int64, after record.Data) record.Record {
	return record.Record{Position: record.Position(position), Operation: record.OperationCreate, After: after,
		Metadata: record.NewMetadata(set{record.KeyCreatedAt: fmt.Sprint(ms * 1e6)})}
}

// sample returns a record with a sample of the series {__name__="m", s="…"}.
func sample(series string, ms int64, value any) record.Record {
	return newRecord(fmt.Sprintf("%s@%d=%v", series, ms, value), ms, record.Structured(map[string]any{"name": "m",
		"value": value, "labels": map[string]any{"s": series}}))
}

func raw(text string) record.Data { return record.Raw([]byte(text)) }

// writeAll writes records as the host does: it continues after refused ones, which it returns by position.
func writeAll(t testing.TB, d sdk.Destination, records []record.Record) map[string]string {
	t.Helper()
	refused := map[string]string{}
	for len(records) > 0 {
		n, err := d.Write(t.Context(), records)
		if records = records[n:]; err == nil {
			continue
		}
		if builtintest.Lost(err) || len(records) == 0 {
			t.Fatalf("%d records are left: %v", len(records), err)
		}
		refused[string(records[0].Position)] = err.Error()
		records = records[1:]
	}
	return refused
}

var protocols = []string{"1", "2"}

// TestSamples checks names, labels, values and times of records, and the reasons for which others are refused.
func TestSamples(t *testing.T) {
	object := func(pairs ...any) record.Data {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return record.Structured(m)
	}
	hall := raw(`{"celsius": 21.5, "hall": "3", "at": "2026-01-02T03:04:05.678Z", "unit": "C"}`)
	templates := set{"name": "climate", "value": "{{ .Payload.After.celsius }}",
		"labels.hall": "{{ .Payload.After.hall }}"}
	labels := func(m map[string]any) record.Data { return object("name", "m", "value", 1, "labels", m) }
	for name, c := range map[string]struct {
		settings set
		payload  record.Data
		want     string // or a part of the error
	}{
		"defaults": {nil, object("name", "up", "value", 1.5, "labels", map[string]any{"job": "a\"b", "A": "x", "n": 7}),
			`{A="x", __name__="up", job="a\"b", n="7"} 1.5 @1000`},
		"templates": {templates, hall, `{__name__="climate", hall="3"} 21.5 @1000`},
		"time": {set{"time": "{{ .Payload.After.at }}", "name": "m", "value": "1"}, hall,
			`{__name__="m"} 1 @1767323045678`},
		"milliseconds": {set{"time": "-5", "name": "m", "value": "1"}, hall, `{__name__="m"} 1 @-5`},
		"text": {set{"name": "m", "value": `{{ printf "%s" .Payload.After }}`}, raw(" 7.25\n"),
			`{__name__="m"} 7.25 @1000`},
		"replaced": {set{"labels.s": `{{ "" }}`, "labels.n": "9"}, labels(map[string]any{"s": "x", "n": "1"}),
			`{__name__="m", n="9"} 1 @1000`},
		"empty label": {nil, labels(map[string]any{"s": "", "none": nil}), `{__name__="m"} 1 @1000`},
		"integer": {nil, object("name", "m", "value", uint64(1<<63)),
			`{__name__="m"} 9.223372036854776e+18 @1000`},
		"number text": {nil, object("name", "m", "value", "1e3"), `{__name__="m"} 1000 @1000`},
		"JSON number": {nil, object("name", "m", "value", json.Number("2.5")), `{__name__="m"} 2.5 @1000`},
		"infinity":    {nil, object("name", "m", "value", math.Inf(-1)), `{__name__="m"} -Inf @1000`},
		"utf8": {set{"names": "utf8"}, object("name", "a.b", "value", 1, "labels", map[string]any{"ä": "x"}),
			`{__name__="a.b", ä="x"} 1 @1000`},
		"no payload":     {nil, record.Data{}, "has no payload after the change"},
		"no name":        {nil, object("value", 1), "it has no name: set name"},
		"number as name": {nil, object("name", 1, "value", 1), "it has no name: set name"},
		"empty name":     {nil, object("name", "", "value", 1), "its name is wrong: it is empty"},
		"wrong name":     {nil, object("name", "a.b", "value", 1), `the name "a.b" must consist of letters`},
		"no value":       {nil, object("name", "m"), "it has no value: set value"},
		"null":           {nil, object("name", "m", "value", nil), "its value is wrong: it is no number"},
		"bool":           {nil, object("name", "m", "value", true), "its value is wrong: it is no number"},
		"object":         {nil, object("name", "m", "value", map[string]any{}), "its value is wrong: it is no number"},
		"word":           {nil, object("name", "m", "value", "x"), `its value is wrong: "x" is no number`},
		"too large":      {nil, object("name", "m", "value", "1e999"), `the number "1e999" is too large`},
		"no NaN":         {nil, object("name", "m", "value", "NaN(0x1)"), `"NaN(0x1)" is no NaN`},
		"raw":            {nil, raw("x"), "it has no name: set name"},
		"broken JSON":    {nil, raw(`{"name":"m"`), "it has no name: set name"},
		"labels": {nil, object("name", "m", "value", 1, "labels", "x"),
			"the member labels of the payload is not an object"},
		"label name":     {nil, labels(map[string]any{"a-b": "x"}), `the name "a-b" of a label must consist of letters`},
		"name as label":  {nil, labels(map[string]any{"__name__": "x"}), "the name of the metric is no label"},
		"list as label":  {nil, labels(map[string]any{"a": []any{}}), "the label a is an object or a list"},
		"bytes as label": {nil, labels(map[string]any{"a": "\xff"}), "its label a is not UTF-8 text"},
		"long label": {nil, labels(map[string]any{"a": strings.Repeat("x", 70_000)}),
			"its labels have 70026 bytes, more than 65536"},
		"wrong time":  {set{"time": "{{ .Payload.After.name }}"}, labels(nil), `its time is wrong: "m" is no time`},
		"wrong value": {set{"value": "{{ .Payload.After.name }}"}, labels(nil), `its value is wrong: "m" is no number`},
		"wrong type": {set{"type": "{{ .Payload.After.name }}"}, labels(nil),
			`its type is wrong: "m" is none of unknown, counter`},
		"template": {set{"name": "{{ .Payload.After.none.x }}"}, labels(nil),
			"cannot execute the template of name"},
	} {
		for _, protocol := range protocols {
			t.Run(name+" "+protocol, func(t *testing.T) {
				db := serve(t)
				settings := set{"url": db.URL, "protocol": protocol}
				for k, v := range c.settings {
					settings[k] = v
				}
				n, err := open(t, settings).Write(t.Context(), []record.Record{newRecord("p", 1000, c.payload)})
				if strings.HasPrefix(c.want, "{") {
					if got := db.stored(); n != 1 || err != nil || !slices.Equal(got, []string{c.want}) {
						t.Errorf("wrote %d: %v: stored %q, want %q", n, err, got, c.want)
					}
				} else if n != 0 || err == nil || builtintest.Lost(err) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("wrote %d: %v, want %q", n, err, c.want)
				}
			})
		}
	}
}

// TestBits checks that NaN, infinities and stale markers keep their bits, as JSON too.
func TestBits(t *testing.T) {
	for _, bits := range []uint64{0x7ff8000000000001, 0x7ff0000000000002, 0x7ff8000000000000, 0xfff800000000abcd,
		math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)), math.Float64bits(1e300), 1,
		math.Float64bits(9007199254740993)} {
		for _, protocol := range protocols {
			db := serve(t)
			after := record.Structured(map[string]any{"name": "m", "value": prometheus.ValueOf(bits)})
			text, err := after.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			d := open(t, set{"url": db.URL, "protocol": protocol})
			writeAll(t, d, []record.Record{newRecord("a", 1, after), newRecord("b", 2, record.Raw(text)),
				newRecord("c", 3, record.Structured(map[string]any{"name": "m", "value": math.Float64frombits(bits)}))})
			if len(db.points) != 3 || db.points[0].bits != bits || db.points[1].bits != bits || db.points[2].bits != bits {
				t.Errorf("%s as %s became %v", text, protocol, db.points)
			}
		}
	}
}

// TestRequests checks the messages and the headers of both protocols.
func TestRequests(t *testing.T) {
	histogram := map[string]any{"count": int64(3), "sum": 4.5, "schema": int64(-1), "zeroThreshold": 0.001,
		"zeroCount":      1,
		"positiveSpans":  []any{map[string]any{"offset": int64(-2), "length": 2}},
		"positiveDeltas": []any{int64(1), int64(-1)}, "resetHint": "gauge"}
	records := []record.Record{
		newRecord("a", 2000, record.Structured(map[string]any{"name": "m", "value": 1, "type": "counter", "help": "Help.",
			"unit": "s", "startTimestamp": 500})),
		newRecord("b", 1000, record.Structured(map[string]any{"name": "m", "value": 2})),
		newRecord("c", 1000, record.Structured(map[string]any{"name": "h", "histogram": histogram})),
		newRecord("d", 1500, record.Structured(map[string]any{"name": "m", "exemplar": map[string]any{"value": 9,
			"labels": map[string]any{"trace_id": "abc"}}})),
		{Position: record.Position("e"), Operation: record.OperationCreate, Metadata: record.NewMetadata(set{
			"prometheus.kind": "metadata"}), After: record.Structured(map[string]any{"name": "n", "type": "gauge"})},
	}
	const ofHistogram = `count_int:3 sum:4.5 schema:-1 zero_threshold:0.001 zero_count_int:1 ` +
		`positive_spans:{offset:-2 length:2} positive_deltas:1 positive_deltas:-1 reset_hint:3 timestamp:1000`
	for protocol, want := range map[string]string{
		"1": `timeseries:{labels:{name:"__name__" value:"m"} samples:{value:2 timestamp:1000} ` +
			`samples:{value:1 timestamp:2000} ` +
			`exemplars:{labels:{name:"trace_id" value:"abc"} value:9 timestamp:1500}} ` +
			`timeseries:{labels:{name:"__name__" value:"h"} histograms:{` + ofHistogram + `}} ` +
			`metadata:{type:1 metric_family_name:"m" help:"Help." unit:"s"} metadata:{type:2 metric_family_name:"n"}`,
		"2": `symbols:"" symbols:"__name__" symbols:"m" symbols:"trace_id" symbols:"abc" symbols:"Help." symbols:"s" ` +
			`symbols:"h" timeseries:{labels_refs:1 labels_refs:2 samples:{value:2 timestamp:1000} ` +
			`samples:{value:1 timestamp:2000 start_timestamp:500} ` +
			`exemplars:{labels_refs:3 labels_refs:4 value:9 timestamp:1500} metadata:{type:1 help_ref:5 unit_ref:6}} ` +
			`timeseries:{labels_refs:1 labels_refs:7 histograms:{` + ofHistogram + `}}`,
	} {
		db := serve(t)
		d := open(t, set{"url": db.URL, "protocol": protocol, "headers.X-Scope-OrgID": "team", "auth.token": "word"})
		if refused := writeAll(t, d, records); len(refused) > 0 {
			t.Errorf("refused %v", refused)
		}
		if len(db.messages) != 1 || db.messages[0].text() != want {
			t.Errorf("sent %d requests, the first one\n%s\nwant\n%s", len(db.messages), db.messages[0].text(), want)
		}
		contentType, version := "application/x-protobuf", "0.1.0"
		if protocol == "2" {
			contentType, version = "application/x-protobuf;proto=io.prometheus.write.v2.Request", "2.0.0"
		}
		for name, want := range map[string]string{"Content-Type": contentType, "X-Prometheus-Remote-Write-Version": version,
			"Content-Encoding": "snappy", "X-Scope-Orgid": "team", "Authorization": "Bearer word"} {
			if got := db.header.Get(name); got != want {
				t.Errorf("protocol %s: the header %s is %q, want %q", protocol, name, got, want)
			}
		}
		// The server of 1.0 has the metadata; only changed ones are sent again.
		writeAll(t, d, []record.Record{sample("a", 1, 1), newRecord("f", 3000, records[0].After),
			newRecord("g", 4000, record.Structured(map[string]any{"name": "m", "value": 1, "type": "gauge"}))})
		sent := db.messages[1].text()
		if has := strings.Count(sent, "metadata:"); protocol == "1" && (has != 1 || !strings.Contains(sent,
			`metadata:{type:2 metric_family_name:"m"}`)) || protocol == "2" && has != 2 {
			t.Errorf("then sent %s", sent)
		}
	}
}

// TestFamilies checks the names of metrics whose series have suffixes.
func TestFamilies(t *testing.T) {
	db := serve(t)
	d := open(t, set{"url": db.URL})
	writeAll(t, d, []record.Record{
		newRecord("a", 1, record.Structured(map[string]any{"name": "h_bucket", "value": 1, "type": "histogram"})),
		newRecord("b", 1, record.Structured(map[string]any{"name": "h_sum", "value": 1, "type": "histogram"})),
		newRecord("c", 1, record.Structured(map[string]any{"name": "s_count", "value": 1, "type": "summary"})),
		newRecord("d", 1, record.Structured(map[string]any{"name": "g_sum", "value": 1, "type": "gauge"})),
		newRecord("e", 1, record.Structured(map[string]any{"name": "x", "value": 1, "type": "sensor"})),
	})
	sent := db.messages[0].text()
	_, sent, _ = strings.Cut(sent, " metadata:")
	if want := `{type:3 metric_family_name:"h"} metadata:{type:5 metric_family_name:"s"} ` +
		`metadata:{type:2 metric_family_name:"g_sum"}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}

// TestBadHistograms checks the reasons for which histograms and exemplars are refused.
func TestBadHistograms(t *testing.T) {
	type object = map[string]any
	for name, c := range map[string]struct {
		payload object
		want    string
	}{
		"text":    {object{"histogram": "x"}, "its histogram is wrong: it is no object"},
		"unknown": {object{"histogram": object{"sums": 1}}, `the member "sums" is unknown`},
		"count": {object{"histogram": object{"count": -1}},
			"the member count is wrong: it is no whole number from 0"},
		"fraction": {object{"histogram": object{"schema": 1.5}},
			"the member schema is wrong: it is no whole number"},
		"sum": {object{"histogram": object{"sum": "x"}}, `the member sum is wrong: "x" is no number`},
		"list": {object{"histogram": object{"positiveDeltas": 1}},
			"the member positiveDeltas is wrong: it is no list"},
		"delta": {object{"histogram": object{"positiveDeltas": []any{"x"}}}, "it is no whole number"},
		"float": {object{"histogram": object{"positiveCounts": []any{nil}}}, "it is no number"},
		"span":  {object{"histogram": object{"positiveSpans": []any{1}}}, "the offset of a span is wrong"},
		"length": {object{"histogram": object{"positiveSpans": []any{object{"offset": 1}}}},
			"the length of a span is wrong"},
		"hint":     {object{"histogram": object{"resetHint": "maybe"}}, "the member resetHint is wrong"},
		"start":    {object{"histogram": object{}, "startTimestamp": "x"}, "its startTimestamp is wrong"},
		"exemplar": {object{"exemplar": 1}, "its exemplar is wrong: it is no object"},
		"labels":   {object{"exemplar": object{"labels": 1}}, "its labels are no object"},
		"no value": {object{"exemplar": object{}}, "its value is wrong: it is no number"},
		"bytes": {object{"exemplar": object{"value": 1, "labels": object{"a": "\xff"}}},
			"its label a is not UTF-8 text"},
		"long help":     {object{"value": 1, "help": strings.Repeat("x", 70_000)}, "its help has 70000 bytes"},
		"help of bytes": {object{"value": 1, "help": "\xff"}, "its help is not UTF-8 text"},
	} {
		c.payload["name"] = "m"
		db := serve(t)
		d := open(t, set{"url": db.URL, "protocol": "2"})
		n, err := d.Write(t.Context(), []record.Record{newRecord("p", 1, record.Structured(c.payload))})
		if n != 0 || err == nil || builtintest.Lost(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: wrote %d: %v, want %q", name, n, err, c.want)
		}
	}
}

// variants are the ways of a server to refuse samples.
var variants = map[string]struct {
	protocol string
	partial  bool
}{"all or nothing": {"1", false}, "partial": {"1", true}, "2.0": {"2", true}}

// TestRepeated writes records, and with a new destination some records again before further ones, as after a kill of
// the agent: none is refused, and the server has each once.
func TestRepeated(t *testing.T) {
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			db := serve(t)
			db.partial = v.partial
			settings := set{"url": db.URL, "protocol": v.protocol, "batch.maxRecords": "7"}
			var records []record.Record
			for i := range 40 {
				records = append(records, sample(fmt.Sprint("s", i%3), int64(1000+i), i))
			}
			if refused := writeAll(t, open(t, settings), records[:30]); len(refused) > 0 {
				t.Errorf("first refused %v", refused)
			}
			if refused := writeAll(t, open(t, settings), records[10:]); len(refused) > 0 {
				t.Errorf("then refused %v", refused)
			}
			if got := db.stored(); len(got) != 40 {
				t.Errorf("stored %d: %q", len(got), got)
			}
		})
	}
}

// TestRepeatedRequests counts the requests for a batch after a kill of the agent, when the server has the first half of
// it: about one for each repeated sample with 1.0, and a single one with 2.0.
func TestRepeatedRequests(t *testing.T) {
	const repeated = 100
	for name, most := range map[string]int{"all or nothing": repeated + 20, "2.0": 1} {
		t.Run(name, func(t *testing.T) {
			db := serve(t)
			settings := set{"url": db.URL, "protocol": variants[name].protocol}
			var records []record.Record
			for i := range 2 * repeated {
				records = append(records, sample(fmt.Sprint("s", i%3), int64(1000+i), i))
			}
			if refused := writeAll(t, open(t, settings), records[:repeated]); len(refused) > 0 {
				t.Fatal(refused)
			}
			before := db.count()
			if refused := writeAll(t, open(t, settings), records); len(refused) > 0 {
				t.Errorf("refused %v", refused)
			}
			if n := db.count() - before; n > most || len(db.stored()) != len(records) {
				t.Errorf("%d requests, want at most %d, stored %d", n, most, len(db.stored()))
			}
		})
	}
}

// TestPartialUnclear checks responses that refuse samples of a request of 2.0 without saying enough: the server gets
// smaller requests, and each sample that it refuses for another reason is refused.
func TestPartialUnclear(t *testing.T) {
	for name, c := range map[string]struct{ written, text string }{
		"no number":     {"", "out of order sample\nout of order sample"},
		"wrong number":  {"1", "out of order sample\nout of order sample"},
		"large number":  {"3", "out of order sample\nout of order sample"},
		"other reason":  {"0", "out of order sample\nlabel too long"},
		"without lines": {"0", ""},
	} {
		db := serve(t)
		db.fails = func(w http.ResponseWriter, request int) bool {
			if request > 1 {
				return false
			}
			w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", c.written)
			http.Error(w, c.text, http.StatusBadRequest)
			return true
		}
		d := open(t, set{"url": db.URL, "protocol": "2"})
		if refused := writeAll(t, d, []record.Record{sample("a", 1, 1), sample("b", 1, 1)}); len(refused) > 0 {
			t.Errorf("%s: refused %q", name, refused)
		}
		if got := len(db.stored()); got != 2 {
			t.Errorf("%s: stored %d", name, got)
		}
	}
}

// TestOutOfOrder checks that samples older than ones that this destination has written before are refused, and only
// they.
func TestOutOfOrder(t *testing.T) {
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			db := serve(t)
			db.partial = v.partial
			d := open(t, set{"url": db.URL, "protocol": v.protocol})
			if refused := writeAll(t, d, []record.Record{sample("a", 1000, 1), sample("b", 1000, 1)}); len(refused) > 0 {
				t.Fatal(refused)
			}
			refused := writeAll(t, d, []record.Record{sample("a", 2000, 2), sample("a", 500, 9), sample("b", 1000, 7),
				sample("b", 2000, 2), sample("a", 3000, 3), sample("b", 3000, 3)})
			if len(refused) != 2 || !strings.Contains(refused["a@500=9"], "out of order sample") ||
				refused["b@1000=7"] == "" {
				t.Errorf("refused %q", refused)
			}
			got := db.stored()
			slices.Sort(got)
			want := []string{}
			for _, s := range []string{"a", "b"} {
				for i := range 3 {
					want = append(want, fmt.Sprintf(`{__name__="m", s="%s"} %d @%d`, s, i+1, (i+1)*1000))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("stored %q, want %q", got, want)
			}
		})
	}
}

// TestOrderInRequest writes samples of a series in the wrong order and with the same time in one call: the server,
// which drops such ones of a request without an error, has them all or reports them.
func TestOrderInRequest(t *testing.T) {
	for _, protocol := range protocols {
		db := serve(t)
		d := open(t, set{"url": db.URL, "protocol": protocol})
		refused := writeAll(t, d, []record.Record{sample("a", 3, 3), sample("a", 1, 1), sample("a", 2, 2),
			sample("a", 3, 3), sample("a", 3, 4), sample("a", 4, 4)})
		if len(refused) != 1 || refused["a@3=4"] == "" {
			t.Errorf("refused %q", refused)
		}
		if got := len(db.stored()); got != 4 {
			t.Errorf("stored %q", db.stored())
		}
	}
}

// TestLostResponse checks a request that the server stored without a response: the repeated samples are not refused.
func TestLostResponse(t *testing.T) {
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			db := serve(t)
			db.partial = v.partial
			db.loses = func(request int) bool { return request == 2 }
			d := open(t, set{"url": db.URL, "protocol": v.protocol})
			prometheus.Excuses(d, 0)
			refused := writeAll(t, d, []record.Record{sample("a", 1000, 1)})
			for k, v := range writeAll(t, d, []record.Record{sample("a", 2000, 2), sample("a", 3000, 3)}) {
				refused[k] = v
			}
			if got := db.stored(); len(refused) > 0 || len(got) != 2+1 {
				t.Errorf("stored %q, refused %q", got, refused)
			}
		})
	}
}

// TestExcusesEnd checks that a series to which something else writes newer samples does not hide the loss of all
// samples.
func TestExcusesEnd(t *testing.T) {
	for _, protocol := range protocols {
		db := serve(t)
		settings := set{"url": db.URL, "protocol": protocol}
		if refused := writeAll(t, open(t, settings), []record.Record{sample("a", 9000, 1)}); len(refused) > 0 {
			t.Fatal(refused)
		}
		d := open(t, settings)
		prometheus.Excuses(d, 2)
		refused := writeAll(t, d, []record.Record{sample("a", 1000, 1), sample("a", 2000, 1), sample("a", 3000, 1)})
		if len(refused) != 1 || !strings.Contains(refused["a@3000=1"], "out of order sample") {
			t.Errorf("%s: refused %q", protocol, refused)
		}
	}
}

// TestTooOld checks that a sample which is too old for the server is refused, also as the first one of a run.
func TestTooOld(t *testing.T) {
	for _, text := range []string{"out of bounds", "too old sample", "err-mimir-sample-timestamp-too-old",
		"duplicate sample for timestamp"} {
		db := serve(t)
		db.fails = func(w http.ResponseWriter, _ int) bool {
			http.Error(w, text, http.StatusBadRequest)
			return true
		}
		refused := writeAll(t, open(t, set{"url": db.URL}), []record.Record{sample("a", 1, 1)})
		if !strings.Contains(refused["a@1=1"], text) {
			t.Errorf("%s: refused %q", text, refused)
		}
	}
}

// TestResponses checks the errors after responses that blame no record.
func TestResponses(t *testing.T) {
	for name, c := range map[string]struct {
		protocol string
		status   int
		body     string
		want     string
	}{
		"wrong path":      {"1", 404, "404 page not found", "check the path in url"},
		"bad request":     {"1", 400, "what is this?", "no request has succeeded yet, so url may be wrong"},
		"credentials":     {"1", 401, "", "check the settings auth.*"},
		"version":         {"2", 415, "unsupported proto message", "set protocol to the version"},
		"no confirmation": {"2", 200, "", "set protocol to 1"},
		"page":            {"1", 200, "<html>", "it is a page: check url"},
		"server":          {"1", 500, "broken", "broken"},
		"too many":        {"1", 429, "slower", "slower"},
	} {
		db := serve(t)
		db.fails = func(w http.ResponseWriter, _ int) bool {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
			return true
		}
		d := open(t, set{"url": db.URL, "protocol": c.protocol, "retry.timeout": "0s"})
		n, err := d.Write(t.Context(), []record.Record{sample("a", 1, 1)})
		if n != 0 || !builtintest.Lost(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: wrote %d: %v, want %q", name, n, err, c.want)
		}
	}
}

// TestUnconfirmed checks a server of 2.0 that responds with success and confirms fewer samples than it was sent.
func TestUnconfirmed(t *testing.T) {
	db := serve(t)
	db.fails = func(w http.ResponseWriter, request int) bool {
		w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", map[bool]string{true: "1", false: "0"}[request != 3])
		return true
	}
	d := open(t, set{"url": db.URL, "protocol": "2"})
	refused := writeAll(t, d, []record.Record{sample("a", 1, 1), sample("b", 1, 1)}) // both, a, b
	if len(refused) != 1 || !strings.Contains(refused["b@1=1"], "did not write the sample") {
		t.Errorf("refused %q after %d requests", refused, db.count())
	}
}

// TestBounds checks the bounds on series and on metrics with metadata.
func TestBounds(t *testing.T) {
	db := serve(t)
	d := open(t, set{"url": db.URL, "series.max": "2"})
	refused := writeAll(t, d, []record.Record{sample("a", 1, 1), sample("b", 1, 1), sample("c", 1, 1),
		sample("a", 2, 1)})
	if len(refused) != 1 || !strings.Contains(refused["c@1=1"], "2 are in use") || len(db.stored()) != 3 {
		t.Errorf("refused %q, stored %q", refused, db.stored())
	}
	for i := range 3 {
		r := newRecord("p", 1, record.Structured(map[string]any{"name": fmt.Sprint("m", i), "help": "x"}))
		r.Metadata.Set("prometheus.kind", "metadata")
		if _, err := d.Write(t.Context(), []record.Record{r}); (err != nil) != (i == 2) {
			t.Errorf("metadata %d: %v", i, err)
		}
	}
}

// TestReadTimes checks the times of records that have only a time of reading.
func TestReadTimes(t *testing.T) {
	db := serve(t)
	var records []record.Record
	for i := range 3 {
		r := sample("a", 0, i)
		r.Metadata = record.NewMetadata(set{record.KeyReadAt: "5000000000"})
		records = append(records, r)
	}
	writeAll(t, open(t, set{"url": db.URL}), records)
	if got := db.stored(); len(got) != 3 || !strings.HasSuffix(got[0], "@5000") || !strings.HasSuffix(got[2], "@5002") {
		t.Errorf("stored %q", got)
	}
}

// TestRetryAfter checks that a pause is as long as the server asks for.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		p := network.ServePipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			at = append(at, time.Since(begin))
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		d := &prometheus.Destination{}
		if err := d.Configure(t.Context(), set{"url": "http://a", "retry.timeout": "50s"}); err != nil {
			t.Fatal(err)
		}
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.Sink.Client.Transport.DialContext = p.Dial
		n, err := d.Write(t.Context(), []record.Record{sample("a", 1, 1)})
		want := []time.Duration{0, 20 * time.Second, 40 * time.Second}
		if n != 0 || !builtintest.Lost(err) || !slices.Equal(at, want) {
			t.Errorf("wrote %d with requests at %v: %v", n, at, err)
		}
		if err := d.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSettings checks the errors of settings of the destination.
func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		settings set
		want     string
	}{
		"no url":      {set{}, "url"},
		"url":         {set{"url": "prometheus:9090"}, "must be a URL"},
		"protocol":    {set{"url": "http://a", "protocol": "3"}, "protocol"},
		"name":        {set{"url": "http://a", "name": "a-b"}, `the name "a-b"`},
		"utf8":        {set{"url": "http://a", "name": "a-b", "names": "utf8"}, ""},
		"value":       {set{"url": "http://a", "value": "x"}, `"x" is no number`},
		"time":        {set{"url": "http://a", "time": "x"}, `"x" is no time`},
		"type":        {set{"url": "http://a", "type": "x"}, `"x" is none of`},
		"template":    {set{"url": "http://a", "value": "{{ .x"}, "value"},
		"label":       {set{"url": "http://a", "labels.a-b": "x"}, "labels.a-b"},
		"name label":  {set{"url": "http://a", "labels.__name__": "x"}, "set name"},
		"help":        {set{"url": "http://a", "help": "{{ .x"}, "help"},
		"credentials": {set{"url": "http://a", "auth.token": "t", "auth.username": "u"}, "auth.token"},
	} {
		d := &prometheus.Destination{}
		wrong := d.Parameters().Check(c.settings)
		err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(c.settings))
		if (err == nil && len(wrong) == 0) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, wrong, err, c.want)
		}
	}
	if _, ok := (&prometheus.Destination{}).Parameters()["compression"]; ok {
		t.Error("the compression is a setting")
	}
}

// TestContract checks the contract of a destination.
func TestContract(t *testing.T) {
	servers := sync.Map{}
	plugintest.Run(t, plugintest.Target{
		Connector: prometheus.Connector(),
		Destination: func(t testing.TB) map[string]string {
			db := serve(t)
			servers.Store(db.URL, db)
			return set{"url": db.URL, "name": "m", "value": "1", "labels.payload": `{{ printf "%s" .Payload.After }}`}
		},
		Written: func(_ testing.TB, settings map[string]string) (all []string) {
			db, _ := servers.Load(settings["url"])
			for _, p := range db.(*tsdb).stored() {
				_, label, _ := strings.Cut(p, `payload="`)
				label, _, _ = strings.Cut(label, `"}`)
				all = append(all, label)
			}
			return all
		},
	})
}
