package prometheus_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/builtin/prometheus"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// listening returns an open source and the URL on which it receives.
func listening(t testing.TB, more ...string) (*prometheus.Source, string) {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	settings := set{"address": addr}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return plugintest.OpenSource(t, &prometheus.Source{}, settings, nil), "http://" + addr + "/api/v1/write"
}

func ack(t testing.TB, s sdk.Source, records []record.Record) {
	t.Helper()
	positions := make([]record.Position, len(records))
	for i := range records {
		positions[i] = records[i].Position
	}
	if err := s.Ack(t.Context(), positions); err != nil {
		t.Fatal(err)
	}
}

// answer is the response to a request.
type answer struct {
	status int
	body   string
	header http.Header
}

// written returns the numbers of written samples, histograms and exemplars.
func (a answer) written() string {
	const prefix = "X-Prometheus-Remote-Write-"
	return strings.Join([]string{a.header.Get(prefix + "Samples-Written"), a.header.Get(prefix + "Histograms-Written"),
		a.header.Get(prefix + "Exemplars-Written")}, " ")
}

// contentTypes are the content types of the protocols.
var contentTypes = [...]string{1: "application/x-protobuf",
	2: "application/x-protobuf;proto=io.prometheus.write.v2.Request"}

// post sends a body. A response without a status is an error of the connection.
func post(ctx context.Context, to, contentType string, body []byte, headers ...string) answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Content-Encoding", "snappy")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text), resp.Header}
}

// send sends a request in the background.
func send(t testing.TB, to string, version int, request []byte) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- post(t.Context(), to, contentTypes[version], snappy.Encode(nil, request)) }()
	return answers
}

// textOf returns the kind, the time and the payload of a record.
func textOf(t testing.TB, r *record.Record) string {
	t.Helper()
	text, err := r.After.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %s", r.Metadata.Get("prometheus.kind"), r.Metadata.Get(record.KeyCreatedAt), text)
}

// Requests with everything, and the records in requests.
var requests = [...]string{1: `
	timeseries { labels { name: "__name__" value: "m" } labels { name: "job" value: "a" }
		samples { value: 1.5 timestamp: 1000 } samples { value: nan timestamp: 2000 }
		exemplars { labels { name: "trace_id" value: "x" } value: 9 timestamp: 1500 } exemplars { value: 1 }
		histograms { count_float: 2 sum: 3 schema: -53 custom_values: 1 custom_values: 2 zero_count_float: 4
			negative_spans { offset: -1 length: 1 } negative_counts: 0.5 negative_deltas: -7 reset_hint: 1
			timestamp: 3000 } }
	metadata { type: 1 metric_family_name: "m" help: "Help." unit: "s" }
	timeseries { labels { name: "__name__" value: "n" } samples { timestamp: -5 } }`, 2: `
	symbols: "" symbols: "__name__" symbols: "m" symbols: "job" symbols: "a" symbols: "trace_id" symbols: "x"
	symbols: "Help." symbols: "s" symbols: "n"
	timeseries { labels_refs: 1 labels_refs: 2 labels_refs: 3 labels_refs: 4
		samples { value: 1.5 timestamp: 1000 start_timestamp: 7 } samples { value: nan timestamp: 2000 }
		exemplars { labels_refs: 5 labels_refs: 6 value: 9 timestamp: 1500 } exemplars { value: 1 }
		metadata { type: 1 help_ref: 7 unit_ref: 8 } }
	timeseries { labels_refs: 1 labels_refs: 9 created_timestamp: 8
		histograms { count_int: 18446744073709551615 timestamp: 3000 start_timestamp: 9 } samples { timestamp: -5 } }`}

var received = [...][]string{1: {
	`sample 1000000000 {"labels":{"job":"a"},"name":"m","value":1.5}`,
	`sample 2000000000 {"labels":{"job":"a"},"name":"m","value":"NaN"}`,
	`exemplar 1500000000 {"exemplar":{"labels":{"trace_id":"x"},"value":9},"labels":{"job":"a"},"name":"m"}`,
	`exemplar  {"exemplar":{"labels":{},"value":1},"labels":{"job":"a"},"name":"m"}`,
	`histogram 3000000000 {"histogram":{"countFloat":2,"customValues":[1,2],"negativeCounts":[0.5],` +
		`"negativeDeltas":[-7],"negativeSpans":[{"length":1,"offset":-1}],"resetHint":"yes","schema":-53,"sum":3,` +
		`"zeroCountFloat":4},"labels":{"job":"a"},"name":"m"}`,
	`sample -5000000 {"labels":{},"name":"n","value":0}`,
	`metadata  {"help":"Help.","name":"m","type":"counter","unit":"s"}`,
}, 2: {
	`sample 1000000000 {"help":"Help.","labels":{"job":"a"},"name":"m","startTimestamp":7,"type":"counter",` +
		`"unit":"s","value":1.5}`,
	`sample 2000000000 {"help":"Help.","labels":{"job":"a"},"name":"m","type":"counter","unit":"s","value":"NaN"}`,
	`exemplar 1500000000 {"exemplar":{"labels":{"trace_id":"x"},"value":9},"help":"Help.","labels":{"job":"a"},` +
		`"name":"m","type":"counter","unit":"s"}`,
	`exemplar  {"exemplar":{"labels":{},"value":1},"help":"Help.","labels":{"job":"a"},"name":"m",` +
		`"type":"counter","unit":"s"}`,
	`sample -5000000 {"labels":{},"name":"n","startTimestamp":8,"value":0}`,
	`histogram 3000000000 {"histogram":{"count":18446744073709551615},"labels":{},"name":"n","startTimestamp":9}`,
}}

// TestReceive checks the records of a request, and that it is answered when the last one is acknowledged, and not
// before.
func TestReceive(t *testing.T) {
	for version := 1; version <= 2; version++ {
		s, to := listening(t)
		answers := send(t, to, version, encode(t, version, requests[version]))
		want := received[version]
		records := plugintest.Read(t, s, len(want))
		for i := range records {
			if got := textOf(t, &records[i]); got != want[i] {
				t.Errorf("version %d: record %d is\n%s\nwant\n%s", version, i, got, want[i])
			}
		}
		ack(t, s, records[1:]) // all but one
		if a := post(t.Context(), to, contentTypes[1], snappy.Encode(nil, nil)); a.status != 204 {
			t.Errorf("an empty request is answered %+v", a)
		}
		select {
		case a := <-answers:
			t.Fatalf("answered %+v before the acknowledgement", a)
		default:
		}
		ack(t, s, records[:1])
		a := <-answers
		if want := []string{1: "  ", 2: "3 1 2"}[version]; a.status != 204 || a.written() != want {
			t.Errorf("version %d is answered %+v, wrote %q, want %q", version, a, a.written(), want)
		}
	}
}

// TestRoundTrip receives a request and sends its records unchanged, through JSON too, with both protocols: the other
// side receives the same records, but for what 1.0 cannot express.
func TestRoundTrip(t *testing.T) {
	asIs := func(r record.Record) record.Record { return r }
	inJSON := func(r record.Record) record.Record {
		text, err := r.After.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		r.After = record.Raw(text)
		return r
	}
	for from := 1; from <= 2; from++ {
		for to := 1; to <= 2; to++ {
			for name, convert := range map[string]func(record.Record) record.Record{"structured": asIs, "JSON": inJSON} {
				records, rejected, reason, err := prometheus.RecordsIn(encode(t, from, requests[from]), from == 2)
				if err != nil || rejected > 0 {
					t.Fatal(rejected, reason, err)
				}
				db := serve(t)
				d := open(t, set{"url": db.URL, "protocol": fmt.Sprint(to)})
				for i := range records {
					records[i].Position = record.Position(fmt.Sprint(i))
					records[i] = convert(records[i])
				}
				if refused := writeAll(t, d, records); len(refused) > 0 || len(db.messages) != 1 {
					t.Fatalf("refused %v, %d requests", refused, len(db.messages))
				}
				body, err := proto.Marshal(db.messages[0].Interface())
				if err != nil {
					t.Fatal(err)
				}
				again, rejected, reason, err := prometheus.RecordsIn(body, to == 2)
				if err != nil || rejected > 0 {
					t.Fatal(rejected, reason, err)
				}
				var got, want []string
				for i := range again {
					got = append(got, essence(textOf(t, &again[i])))
				}
				for _, text := range received[from] {
					want = append(want, essence(text))
				}
				slices.Sort(got)
				slices.Sort(want)
				got = slices.DeleteFunc(got, func(s string) bool { return s == "" })
				want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
				if !slices.Equal(got, want) {
					t.Errorf("%d to %d, %s:\n%s\nwant\n%s", from, to, name, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
	}
}

// essence removes the members that one of the protocols does not have from the text of a record.
func essence(text string) string {
	if strings.HasPrefix(text, "metadata") {
		return ""
	}
	for _, part := range []string{`"help":"Help.",`, `"type":"counter",`, `,"type":"counter"`, `"unit":"s",`,
		`,"unit":"s"`, `"startTimestamp":7,`, `"startTimestamp":8,`, `,"startTimestamp":9`} {
		text = strings.ReplaceAll(text, part, "")
	}
	if strings.HasPrefix(text, "exemplar") { // it gets the time of reading
		_, text, _ = strings.Cut(text, "{")
	}
	return text
}

// TestReceivePartial sends elements that cannot become records next to one that can.
func TestReceivePartial(t *testing.T) {
	const name = `labels { name: "__name__" value: "m" }`
	good1, good2 := `timeseries { `+name+` samples { value: 7 timestamp: 1 } }`,
		`symbols: "" symbols: "__name__" symbols: "m" symbols: "\n" `+
			`timeseries { labels_refs: 1 labels_refs: 2 samples { value: 7 } }`
	sample, long := `samples { value: 1 }`, strings.Repeat("x", 70_000)
	for what, c := range map[string]struct {
		version int
		request string
		want    string
	}{
		"no name": {1, good1 + `timeseries { labels { name: "a" value: "b" } ` + sample + `}`,
			"a series has no label __name__"},
		"empty name": {1, good1 + `timeseries { ` + name + ` labels { value: "b" } ` + sample + `}`, "has no name"},
		"twice": {1, good1 + `timeseries { ` + name + ` labels { name: "a" } labels { name: "a" } ` + sample + `}`,
			`has the label "a" twice`},
		"long labels": {1, good1 + `timeseries { ` + name + ` labels { name: "a" value: "` + long + `" } ` + sample + `}`,
			"more than 65536 bytes"},
		"time": {1, good1 + `timeseries { ` + name + ` samples { timestamp: 9223372036854775807 } }`,
			"its time 9223372036854775807 ms is out of range"},
		"metadata": {1, good1 + `metadata { help: "x" }`, "the metadata of a metric have no name"},
		"long help": {1, good1 + `metadata { metric_family_name: "m" help: "` + long + `" }`,
			"more than 65536 bytes"},
		"large": {1, good1 + `timeseries { ` + name + ` histograms { ` + strings.Repeat("custom_values: 1 ", 9000) + `} }`,
			"its histogram has 72"},
		"symbol": {2, good2 + `timeseries { labels_refs: 1 labels_refs: 99 ` + sample + `}`,
			"it refers to the symbol 99 of 4"},
		"odd": {2, good2 + `timeseries { labels_refs: 1 labels_refs: 2 labels_refs: 3 ` + sample + `}`,
			"a label of a series has no value"},
		"help": {2, good2 + `timeseries { labels_refs: 1 labels_refs: 2 metadata { help_ref: 99 } ` + sample + `}`,
			"it refers to the symbol 99 of 4"},
		"no labels": {2, good2 + `timeseries { ` + sample + `}`, "a series has no label __name__"},
		"exemplar": {2, good2 + `timeseries { labels_refs: 1 labels_refs: 2 exemplars { labels_refs: 1 } }`,
			"a label of a series has no value"},
	} {
		t.Run(what, func(t *testing.T) {
			s, to := listening(t)
			answers := send(t, to, c.version, encode(t, c.version, c.request))
			records := plugintest.Read(t, s, 1)
			if o, _ := records[0].After.Structured(); o["value"] != 7.0 {
				t.Errorf("read %v", o)
			}
			ack(t, s, records)
			wait.For(t, "the rest to be read", func() bool { return s.Progress().Records != nil && *s.Progress().Records == 0 })
			a := <-answers
			if a.status != 400 || !strings.Contains(a.body, c.want) || !strings.Contains(a.body,
				"1 elements of the request were refused") || c.version == 2 && a.written() != "1 0 0" {
				t.Errorf("answered %+v, wrote %q, want %q", a, a.written(), c.want)
			}
		})
	}
}

// TestReceiveBadText sends labels that are not UTF-8 text, which the text format of protobuf cannot express.
func TestReceiveBadText(t *testing.T) {
	label := func(name, value string) []byte {
		m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		return protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), value)
	}
	request := func(labels ...[]byte) []byte {
		var series []byte
		for _, l := range labels {
			series = protowire.AppendBytes(protowire.AppendTag(series, 1, protowire.BytesType), l)
		}
		series = protowire.AppendBytes(protowire.AppendTag(series, 2, protowire.BytesType), nil)
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), series)
	}
	for _, body := range [][]byte{request(label("__name__", "\xff")), request(label("__name__", "m"), label("\xff", "x")),
		request(label("__name__", "m"), label("a", "\xff")), request([]byte{1}), request([]byte{8, 1})} {
		records, rejected, reason, err := prometheus.RecordsIn(body, false)
		if len(records) != 0 || rejected != 1 || reason == nil || err != nil {
			t.Errorf("%q: %d records, %d rejected: %v, %v", body, len(records), rejected, reason, err)
		}
	}
}

// TestReceiveRefuses checks the responses to requests that are not valid as a whole. Nothing is read.
func TestReceiveRefuses(t *testing.T) {
	s, to := listening(t, "auth.token", "word", "limit.bodyBytes", "2000", "limit.bytes", "50000")
	good := snappy.Encode(nil, encode(t, 1, requests[1]))
	bomb := snappy.Encode(nil, make([]byte, 1<<20))
	many := bytes.Repeat([]byte{4<<3 | 2, 0}, 900) // symbols
	for name, c := range map[string]struct {
		contentType string
		body        []byte
		headers     []string
		status      int
		want        string
	}{
		"no token":     {contentTypes[1], good, []string{"Authorization", ""}, 401, "credentials"},
		"wrong token":  {contentTypes[1], good, []string{"Authorization", "Bearer x"}, 401, "credentials"},
		"JSON":         {"application/json", good, nil, 415, "the content type must be"},
		"no type":      {"", good, nil, 415, "the content type must be"},
		"other proto":  {"application/x-protobuf;proto=x", good, nil, 415, "the content type must be"},
		"gzip":         {contentTypes[1], good, []string{"Content-Encoding", "gzip"}, 415, "must be snappy"},
		"no snappy":    {contentTypes[1], []byte("hello, world"), nil, 400, "cannot decompress"},
		"empty":        {contentTypes[1], nil, nil, 400, "cannot decompress"},
		"cut":          {contentTypes[1], good[:len(good)-3], nil, 400, "cannot decompress"},
		"no message":   {contentTypes[1], snappy.Encode(nil, []byte{0xff}), nil, 400, "no valid request"},
		"wrong field":  {contentTypes[1], snappy.Encode(nil, []byte{8, 1}), nil, 400, "has the wrong type"},
		"wrong sample": {contentTypes[1], snappy.Encode(nil, []byte{10, 2, 16, 1}), nil, 400, "has the wrong type"},
		"cut series":   {contentTypes[2], snappy.Encode(nil, []byte{42, 1, 18}), nil, 400, "no valid request"},
		"large":        {contentTypes[1], make([]byte, 3000), nil, 413, "more than 2000 bytes"},
		"bomb":         {contentTypes[1], bomb, nil, 413, ""},
		"small bomb":   {contentTypes[1], snappy.Encode(nil, make([]byte, 10_000)), nil, 413, "more than 2000 bytes"},
	} {
		a := post(t.Context(), to, c.contentType, c.body, append([]string{"Authorization", "Bearer word"}, c.headers...)...)
		if a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s is answered %d %q, want %d %q", name, a.status, a.body, c.status, c.want)
		}
	}
	a := post(t.Context(), to, contentTypes[2], snappy.Encode(nil, many), "Authorization", "Bearer word")
	if a.status != 204 {
		t.Errorf("symbols without series are answered %+v", a)
	}
	resp, err := http.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET is answered %d", resp.StatusCode)
	}
	other, _ := url.Parse(to)
	if a := post(t.Context(), "http://"+other.Host+"/other", contentTypes[1], good); a.status != 404 {
		t.Errorf("another path is answered %d", a.status)
	}
	if n := *s.Progress().Records; n != 0 {
		t.Errorf("%d records wait", n)
	}
}

// TestReceiveFull checks the response when as many requests wait as may: the sender is asked to retry, with a status
// after which Prometheus does so.
func TestReceiveFull(t *testing.T) {
	large := encode(t, 1, `timeseries { labels { name: "__name__" value: "m" } labels { name: "a" value: "`+
		strings.Repeat("x", 50_000)+`" } samples { value: 1 } }`)
	for name, settings := range map[string][]string{
		"requests": {"limit.requests", "1"},
		"bytes":    {"limit.bytes", "70000", "limit.bodyBytes", "60000"},
	} {
		t.Run(name, func(t *testing.T) {
			s, to := listening(t, settings...)
			answers := send(t, to, 1, large)
			records := plugintest.Read(t, s, 1)
			if a := <-send(t, to, 1, large); a.status != 503 || a.header.Get("Retry-After") != "1" {
				t.Errorf("answered %+v", a)
			}
			ack(t, s, records)
			if a := <-answers; a.status != 204 {
				t.Errorf("answered %+v", a)
			}
			answers = send(t, to, 1, large)
			ack(t, s, plugintest.Read(t, s, 1))
			if a := <-answers; a.status != 204 {
				t.Errorf("when there is room, answered %+v", a)
			}
		})
	}
}

// TestReceiveLate checks the response when the records are not acknowledged in time, and when the source ends.
func TestReceiveLate(t *testing.T) {
	request := encode(t, 2, requests[2])
	s, to := listening(t, "ack.timeout", "20ms")
	answers := send(t, to, 2, request)
	plugintest.Read(t, s, 1)
	if a := <-answers; a.status != 503 || a.header.Get("Retry-After") != "1" || a.written() != "0 0 0" ||
		!strings.Contains(a.body, "within 20ms, but may be written later") {
		t.Errorf("answered %+v", a)
	}
	s, to = listening(t)
	answers = send(t, to, 2, request)
	plugintest.Read(t, s, 1)
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
	if a := <-answers; a.status != 503 || !strings.Contains(a.body, "the pipeline has stopped") {
		t.Errorf("answered %+v", a)
	}
}

// TestReceiveHeaders checks the metadata of requests.
func TestReceiveHeaders(t *testing.T) {
	s, to := listening(t, "metadata.headers", "x-scope-orgid")
	go post(t.Context(), to, contentTypes[1], snappy.Encode(nil, encode(t, 1, requests[1])), "X-Scope-OrgID", "team")
	r := plugintest.Read(t, s, 1)[0]
	if r.Metadata.Get("http.header.X-Scope-Orgid") != "team" || r.Metadata.Get("http.remoteAddress") == "" {
		t.Errorf("read %v", r.Metadata)
	}
}

// TestSourceSettings checks the errors of settings of the source.
func TestSourceSettings(t *testing.T) {
	for name, c := range map[string]struct {
		settings set
		want     string
	}{
		"defaults":     {set{}, ""},
		"address":      {set{"address": "127.0.0.1"}, "must be a host and a port"},
		"open":         {set{"address": ":9201"}, "can be reached from other machines"},
		"token":        {set{"address": ":9201", "auth.token": "x"}, ""},
		"anonymous":    {set{"address": ":9201", "auth.allowAnonymous": "true"}, ""},
		"targets":      {set{"targets": "http://a"}, "needs mode scrape"},
		"sizes":        {set{"limit.bytes": "100"}, "must be at most limit.bytes"},
		"certificate":  {set{"tls.cert": "x"}, "is required with tls.cert"},
		"mode":         {set{"mode": "push"}, "mode"},
		"no targets":   {set{"mode": "scrape"}, "is required with mode scrape"},
		"target":       {set{"mode": "scrape", "targets": "a:9100"}, "must be a URL"},
		"twice":        {set{"mode": "scrape", "targets": "http://a,http://a"}, "appears twice"},
		"scrape":       {set{"mode": "scrape", "targets": "http://a,http://b:1/metrics"}, ""},
		"long timeout": {set{"mode": "scrape", "targets": "http://a", "interval": "5s"}, "must be at most interval"},
		"header":       {set{"mode": "scrape", "targets": "http://a", "headers.a": "x\ny"}, "headers.a"},
		"authority":    {set{"mode": "scrape", "targets": "http://a", "tls.ca": "x"}, "tls.ca"},
	} {
		s := &prometheus.Source{}
		wrong := s.Parameters().Check(c.settings)
		err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(c.settings))
		if (err == nil && len(wrong) == 0) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, wrong, err, c.want)
		}
	}
}

// FuzzRequests decodes arbitrary bodies. Whatever becomes a record can be sent.
func FuzzRequests(f *testing.F) {
	for version := 1; version <= 2; version++ {
		f.Add(encode(f, version, requests[version]), version == 2)
	}
	f.Add([]byte{10, 2, 16, 1}, false)
	f.Fuzz(func(t *testing.T, body []byte, v2 bool) {
		records, rejected, reason, _ := prometheus.RecordsIn(body, v2)
		if (rejected > 0) != (reason != nil) {
			t.Errorf("%d elements are rejected: %v", rejected, reason)
		}
		for i := range records {
			if _, err := records[i].After.MarshalJSON(); err != nil {
				t.Error(err)
			}
			if o, _ := records[i].After.Structured(); o["value"] != nil {
				if _, err := prometheus.BitsOf(o["value"]); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestValues checks that values keep their bits as structured data.
func TestValues(t *testing.T) {
	for _, bits := range []uint64{0, 1 << 63, 1, 0x7ff8000000000001, 0x7ff0000000000002, 0xffffffffffffffff,
		math.Float64bits(math.Inf(1)), math.Float64bits(-1.5)} {
		if got, err := prometheus.BitsOf(prometheus.ValueOf(bits)); got != bits || err != nil {
			t.Errorf("%#x becomes %v and %#x, %v", bits, prometheus.ValueOf(bits), got, err)
		}
	}
	for bits, want := range map[uint64]any{0x7ff0000000000002: "StaleNaN", 0x7ff8000000000001: "NaN",
		0x7ff8000000000000: "NaN(0x7ff8000000000000)", math.Float64bits(math.Inf(1)): "+Inf", 0: 0.0} {
		if got := prometheus.ValueOf(bits); got != want {
			t.Errorf("%#x becomes %v, want %v", bits, got, want)
		}
	}
}
