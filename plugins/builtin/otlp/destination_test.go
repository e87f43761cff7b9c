package otlp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func destination(t testing.TB, settings map[string]string) *otlp.Destination {
	t.Helper()
	d := &otlp.Destination{}
	if err := d.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

// plain returns records that no otlp source made.
func plain(payloads ...string) (all []record.Record) {
	for i, p := range payloads {
		all = append(all, record.Record{Position: fmt.Appendf(nil, "p%d", i), Operation: record.OperationCreate,
			After: record.Raw([]byte(p))})
	}
	return all
}

// writeAll writes all records, and returns the error of each refused one.
func writeAll(t testing.TB, d sdk.Destination, records []record.Record) (refused map[int]string) {
	t.Helper()
	refused = map[int]string{}
	for i := 0; i < len(records); {
		n, err := d.Write(t.Context(), records[i:])
		if i += n; err != nil {
			if builtintest.Lost(err) {
				t.Fatalf("after %d records: %v", i, err)
			}
			refused[i] = err.Error()
			i++
		}
	}
	return refused
}

// TestDestinationToSource sends random records to a source in all protocols: they arrive as they were, also those of
// whole requests in another encoding.
func TestDestinationToSource(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf", "http/json"} {
		for _, compression := range []string{"none", "gzip", "zstd"} {
			t.Run(protocol+", "+compression, func(t *testing.T) {
				s, addr := listening(t)
				d := destination(t, map[string]string{"url": "http://" + addr, "protocol": protocol,
					"compression": compression})
				var records []record.Record
				for _, signal := range signalNames {
					made, _, _ := otlp.RecordsOf(signal, newMaker(5).request(signal), false)
					records = append(records, made...)
				}
				written := make(chan error, 1)
				go func() {
					_, err := d.Write(t.Context(), records)
					written <- err
				}()
				var got []record.Record
				for len(got) < len(records) {
					some := plugintest.Read(t, s, 1)
					got = append(got, some...)
					ack(t, s, some)
				}
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				for len(got) > 0 { // request by request, because a request orders records by group
					signal := got[0].Metadata.Get(otlp.KeySignal)
					n := 0
					for n < len(got) && got[n].Metadata.Get(otlp.KeySignal) == signal {
						n++
					}
					have, err := otlp.RequestOf(got[:n])
					want, err2 := otlp.RequestOf(records[:n])
					if err != nil || err2 != nil || !proto.Equal(have, want) {
						t.Fatalf("%s: %v %v %s", signal, err, err2, difference(have, want))
					}
					got, records = got[n:], records[n:]
				}
			})
		}
	}
}

// TestDestinationWholeRequests sends requests as they were received.
func TestDestinationWholeRequests(t *testing.T) {
	s, addr := listening(t, "records", "requests")
	data := newMaker(5).request("traces")
	inJSON, err := otlp.MarshalJSON(newMaker(5).request("traces"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ protocol, encoding, body string }{
		{"http/json", "json", string(inJSON)}, {"grpc", "protobuf", string(marshal(t, data))},
		{"http/json", "protobuf", string(marshal(t, data))}, {"http/protobuf", "json", string(inJSON)},
	} {
		d := destination(t, map[string]string{"url": "http://" + addr, "protocol": c.protocol})
		r := plain(c.body)
		r[0].Metadata = record.NewMetadata(map[string]string{otlp.KeySignal: "traces", otlp.KeyEncoding: c.encoding})
		written := make(chan error, 1)
		go func() { _, err := d.Write(t.Context(), r); written <- err }()
		got := plugintest.Read(t, s, 1)
		ack(t, s, got)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		body, _ := got[0].After.Raw()
		if encoding := got[0].Metadata.Get(otlp.KeyEncoding); encoding == c.encoding && string(body) != c.body {
			t.Errorf("%s over %s is changed", c.encoding, c.protocol)
		} else if encoding != c.encoding {
			have := otlp.NewData("traces")
			if encoding == "json" {
				err = otlp.UnmarshalJSON(body, have)
			} else {
				err = proto.Unmarshal(body, have)
			}
			if err != nil || !proto.Equal(have, data) {
				t.Errorf("%s over %s: %v", c.encoding, c.protocol, err)
			}
		}
	}
	d := destination(t, map[string]string{"url": "http://" + addr, "protocol": "http/json"})
	broken := plain("no request")
	broken[0].Metadata = record.NewMetadata(map[string]string{otlp.KeySignal: "traces", otlp.KeyEncoding: "protobuf"})
	if refused := writeAll(t, d, broken); !strings.Contains(refused[0], "no request in protobuf") {
		t.Errorf("refused %v", refused)
	}
}

// collector is a gRPC server with a scripted answer.
type collector struct {
	collogs.UnimplementedLogsServiceServer
	addr   string
	answer func(n int, q *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error)

	mu     sync.Mutex
	got    [][]string // guarded by mu: bodies of the log records of each request
	header metadata.MD
}

// Export answers a request.
func (c *collector) Export(
	ctx context.Context, q *collogs.ExportLogsServiceRequest,
) (*collogs.ExportLogsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header, _ = metadata.FromIncomingContext(ctx)
	c.got = append(c.got, bodies(q.GetResourceLogs()))
	return c.answer(len(c.got), q)
}

func bodies(all []*logs.ResourceLogs) (texts []string) {
	for _, r := range all {
		for _, s := range r.GetScopeLogs() {
			for _, l := range s.GetLogRecords() {
				texts = append(texts, l.GetBody().GetStringValue())
			}
		}
	}
	return texts
}

type answers = func(int, *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error)

func startCollector(t testing.TB, a answers) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, s := &collector{addr: l.Addr().String(), answer: a}, grpc.NewServer()
	collogs.RegisterLogsServiceServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return c
}

// rejects refuses the log records with a body that contains "bad", and reports their number.
func rejects(_ int, q *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	n := int64(0)
	for _, body := range bodies(q.GetResourceLogs()) {
		if strings.Contains(body, "bad") {
			n++
		}
	}
	if n == 0 {
		return &collogs.ExportLogsServiceResponse{}, nil
	}
	return &collogs.ExportLogsServiceResponse{PartialSuccess: &collogs.ExportLogsPartialSuccess{
		RejectedLogRecords: n, ErrorMessage: "too old"}}, nil
}

// TestDestinationPartialSuccess checks which records are refused after a partial success: those that may have been
// rejected, and no request is repeated.
func TestDestinationPartialSuccess(t *testing.T) {
	for _, c := range []struct {
		most     string
		payloads []string
		refused  map[int]string
		requests int
	}{
		{"1", []string{"a", "bad", "c"},
			map[int]string{1: `the server rejected 1 log records of the request: "too old"`}, 3},
		{"2", []string{"a", "b", "c", "bad", "e"}, map[int]string{
			2: "which has 2, and does not say which", 3: "this record may have been accepted"}, 3},
		{"2", []string{"bad", "bad", "c"}, map[int]string{0: `2 log records of the request: "too old"`,
			1: `2 log records of the request: "too old"`}, 2},
	} {
		server := startCollector(t, rejects)
		d := destination(t, map[string]string{"url": "http://" + server.addr, "batch.maxRecords": c.most})
		refused := writeAll(t, d, plain(c.payloads...))
		for i, want := range c.refused {
			if !strings.Contains(refused[i], want) {
				t.Errorf("%v: record %d is refused with %q, want %q", c.payloads, i, refused[i], want)
			}
		}
		if len(refused) != len(c.refused) || len(server.got) != c.requests {
			t.Errorf("%v: refused %v, in the requests %v", c.payloads, refused, server.got)
		}
	}
}

// TestDestinationFindsRefused checks that a record is found for which the server refuses a request as a whole.
func TestDestinationFindsRefused(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.ResourceExhausted} {
		var stored []string
		server := startCollector(t, func(_ int,
			q *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse,
			error) {
			all := bodies(q.GetResourceLogs())
			if slices.Contains(all, "bad") {
				return nil, status.Error(code, "wrong: 100% ü")
			}
			stored = append(stored, all...)
			return &collogs.ExportLogsServiceResponse{}, nil
		})
		d := destination(t, map[string]string{"url": "http://" + server.addr})
		refused := writeAll(t, d, plain("a", "b", "c", "bad", "e", "f", "bad", "h"))
		want := fmt.Sprintf("the server refused the record: the server responded with status %v: %q", code,
			"wrong: 100% ü")
		if len(refused) != 2 || refused[3] != want || refused[6] != want || strings.Join(stored, "") != "abcefh" {
			t.Errorf("%v: refused %v, stored %v", code, refused, stored)
		}
	}
}

// TestDestinationRetries checks which failures are retried.
func TestDestinationRetries(t *testing.T) {
	withInfo, err := status.New(codes.ResourceExhausted, "full").WithDetails(&errdetails.RetryInfo{
		RetryDelay: durationpb.New(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	retried := []error{withInfo.Err()}
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange,
		codes.Unavailable, codes.DataLoss} {
		retried = append(retried, status.Error(code, "later"))
	}
	for _, failure := range retried {
		server := startCollector(t, func(n int,
			_ *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse,
			error) {
			if n == 1 {
				return nil, failure
			}
			return &collogs.ExportLogsServiceResponse{}, nil
		})
		d := destination(t, map[string]string{"url": "http://" + server.addr})
		if n, err := d.Write(t.Context(), plain("a")); n != 1 || err != nil || len(server.got) != 2 {
			t.Errorf("%v: wrote %d in %d requests: %v", failure, n, len(server.got), err)
		}
	}
	for _, code := range []codes.Code{codes.Unknown, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.Unimplemented, codes.Internal, codes.Unauthenticated} {
		server := startCollector(t, func(int, *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse,
			error) {
			return nil, status.Error(code, "never with word-1")
		})
		d := destination(t, map[string]string{"url": "http://" + server.addr, "auth.token": "word-1"})
		n, err := d.Write(t.Context(), plain("a"))
		if n != 0 || !builtintest.Lost(err) || len(server.got) != 1 || !strings.Contains(err.Error(), "never with ***") {
			t.Errorf("%v: wrote %d in %d requests: %v", code, n, len(server.got), err)
		}
		if got := server.header.Get("authorization"); !slices.Equal(got, []string{"Bearer word-1"}) {
			t.Errorf("the header authorization is %q", got)
		}
	}
}

// TestDestinationStatuses checks what follows a status over HTTP.
func TestDestinationStatuses(t *testing.T) {
	for code, want := range map[int]string{429: "retried", 502: "retried", 503: "retried", 504: "retried",
		400: "refused", 413: "refused", 422: "refused", 301: "lost", 401: "lost", 403: "lost", 404: "lost", 408: "lost",
		500: "lost", 501: "lost"} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests > 1 {
				return // 200 without a body
			}
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.WriteHeader(code)
			body, _ := proto.Marshal(&rpc.Status{Message: "because"})
			_, _ = w.Write(body)
		}))
		d := destination(t, map[string]string{"url": server.URL, "protocol": "http/protobuf", "compression": "none"})
		n, err := d.Write(t.Context(), plain("a"))
		got := "refused"
		switch {
		case err == nil && n == 1 && requests == 2:
			got = "retried"
		case err != nil && builtintest.Lost(err) && requests == 1:
			got = "lost"
		}
		if got != want || err != nil && !strings.Contains(err.Error(), `"because"`) {
			t.Errorf("%d: %s after %d requests, want %s: %v", code, got, requests, want, err)
		}
		server.Close()
	}
}

// TestDestinationRetryAfter checks that a pause is as long as the server asks for, and that retries end.
func TestDestinationRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		p := network.ServePipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			at = append(at, time.Since(begin))
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		d := &otlp.Destination{}
		if err := d.Configure(t.Context(), map[string]string{"url": "http://a", "protocol": "http/json",
			"retry.timeout": "50s"}); err != nil {
			t.Fatal(err)
		}
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.Dial(p.Dial)
		n, err := d.Write(t.Context(), plain("a"))
		want := []time.Duration{0, 20 * time.Second, 40 * time.Second}
		if n != 0 || !builtintest.Lost(err) || !slices.Equal(at, want) ||
			!strings.Contains(err.Error(), "the last of 3 tries") {
			t.Errorf("wrote %d with requests at %v: %v", n, at, err)
		}
		if err := d.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestDestinationBatches checks the limits of a request.
func TestDestinationBatches(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"[[a b] [c d] [e]]":     {"batch.maxRecords": "2"},
		"[[a] [b] [c d e]]":     {"batch.maxBytes": "78"},
		"[[a b c d e]]":         {},
		"[[a] [b] [c] [d] [e]]": {"batch.maxBytes": "1"},
	} {
		server := startCollector(t, rejects)
		settings["url"] = "http://" + server.addr
		records := plain("a", "b", "c", "d", "e")
		if strings.HasPrefix(want, "[[a] [b] [c d") {
			records[0].Metadata.Set(record.KeyCreatedAt, "1")
			records[0].After = record.Raw([]byte(strings.Repeat("a", 70)))
			records[1].After = record.Raw([]byte(strings.Repeat("b", 70)))
		}
		if refused := writeAll(t, destination(t, settings), records); len(refused) > 0 {
			t.Errorf("refused %v", refused)
		}
		got := strings.NewReplacer(strings.Repeat("a", 70), "a", strings.Repeat("b", 70),
			"b").Replace(fmt.Sprint(server.got))
		if got != want {
			t.Errorf("%v: got %v, want %s", settings, got, want)
		}
	}
}

// TestDestinationLogs checks how records that no otlp source made become log records.
func TestDestinationLogs(t *testing.T) {
	s, addr := listening(t)
	raw, binary := plain("text")[0], plain("\xff")[0]
	raw.Metadata.Set(record.KeyCreatedAt, "1700000000000000007")
	object := record.Record{Operation: record.OperationUpdate, After: record.Structured(map[string]any{
		"level": "WARN", "at": "2026-01-02T03:04:05.6Z", "n": 200.0, "big": json.Number("18446744073709551616"),
		"half": 0.5, "list": []any{true, nil}, "b": []byte{1}, "u": uint64(1 << 63),
		"t": time.Unix(0, 5).UTC()})}
	deleted := record.Record{Operation: record.OperationDelete,
		Before: record.Structured(map[string]any{"id": int64(1)})}
	for _, c := range []struct {
		settings map[string]string
		record   record.Record
		want     string
	}{
		{nil, raw, `{"body":"text","time":"2023-11-14T22:13:20.000000007Z"}`},
		{nil, binary, `{"body":"/w=="}`},
		{nil, deleted, `{"body":{"id":1}}`},
		{nil, object, `{"body":{"at":"2026-01-02T03:04:05.6Z","b":"AQ==","big":"18446744073709551616","half":0.5,` +
			`"level":"WARN","list":[true,null],"n":200,"t":"1970-01-01T00:00:00.000000005Z",` +
			`"u":"9223372036854775808"}}`},
		{map[string]string{"log.body": "{{ .Payload.After.n }} of them", "log.time": "{{ .Payload.After.at }}",
			"log.severity": "{{ .Payload.After.level }}", "log.attributes": "http.route={{ .Operation }}, a = b",
			"resource.attributes": "service.name=shop"}, object,
			`{"attributes":{"a":"b","http.route":"update"},"body":"200 of them",` +
				`"resource":{"attributes":{"service.name":"shop"}},` +
				`"severityNumber":13,"severityText":"WARN","time":"2026-01-02T03:04:05.6Z"}`},
		{map[string]string{"log.severity": "7", "log.time": "{{ 12 }}"}, raw,
			`{"body":"text","severityNumber":7,"time":"1970-01-01T00:00:00.000000012Z"}`},
		{map[string]string{"log.severity": "weird"}, binary, `{"body":"/w==","severityText":"weird"}`},
	} {
		settings := map[string]string{"url": "http://" + addr}
		for k, v := range c.settings {
			settings[k] = v
		}
		d := destination(t, settings)
		written := make(chan error, 1)
		go func() { _, err := d.Write(t.Context(), []record.Record{c.record}); written <- err }()
		got := plugintest.Read(t, s, 1)
		ack(t, s, got)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		o, _ := got[0].After.Structured()
		delete(o, "scope")
		if text, err := got[0].After.AppendJSON(nil); err != nil || string(text) != c.want {
			t.Errorf("%v: got %s, want %s", c.settings, text, c.want)
		}
	}
	d := destination(t, map[string]string{"url": "http://" + addr, "log.time": "{{ .Payload.After.level }}"})
	if refused := writeAll(t, d, []record.Record{object}); !strings.Contains(refused[0], `log.time is "WARN"`) {
		t.Errorf("refused %v", refused)
	}
}

// TestDestinationRefuses checks the errors for records of an otlp source that processors made invalid.
func TestDestinationRefuses(t *testing.T) {
	d := destination(t, map[string]string{"url": "http://127.0.0.1:1"})
	for want, payload := range map[string]map[string]any{
		`a log record has no field "host": move it to attributes`:    {"host": "a"},
		`the field "time" is not a time: it must be in the form`:     {"time": "yesterday"},
		`the field "severityNumber" is not a whole number of 32`:     {"severityNumber": 1 << 40},
		`the field "traceId" is not an id of 32 hexadecimal digits`:  {"traceId": "ab"},
		`the field "attributes" is not an object`:                    {"attributes": []any{}},
		`resource: a resource has no field "name"`:                   {"resource": map[string]any{"name": "x"}},
		`scope: the field "version" is not text`:                     {"scope": map[string]any{"version": 1}},
		`the field "flags" is not a positive whole number of 32 bit`: {"flags": -1},
		`the field "time" is not a time: it must be between`:         {"time": time.Unix(-1, 0)},
	} {
		r := record.Record{After: record.Structured(payload)}
		r.Metadata.Set(otlp.KeySignal, "logs")
		if refused := writeAll(t, d, []record.Record{r}); !strings.Contains(refused[0], want) {
			t.Errorf("%v: got %q, want %q", payload, refused[0], want)
		}
	}
	for want, m := range map[string]map[string]string{
		`the metadata otlp.signal is "profiles"`: {otlp.KeySignal: "profiles"},
		`the payload is not an object`:           {otlp.KeySignal: "logs"},
		`is "xml" instead of protobuf or json`:   {otlp.KeySignal: "logs", otlp.KeyEncoding: "xml"},
	} {
		r := plain("x")
		r[0].Metadata = record.NewMetadata(m)
		if refused := writeAll(t, d, r); !strings.Contains(refused[0], want) {
			t.Errorf("%v: got %q, want %q", m, refused[0], want)
		}
	}
	for want, payload := range map[string]map[string]any{
		`the field "type" is not one of`: {"type": "counter"},
		`the field "bucketCounts" is not a list of positive whole numbers`: {"type": "histogram",
			"bucketCounts": []any{int64(1), int64(-1)}},
		`the field "explicitBounds" is not a list of numbers`: {"type": "histogram", "explicitBounds": []any{1.5, "2"}},
		`positive: the field "bucketCounts" is not a list of`: {"type": "exponentialHistogram",
			"positive": map[string]any{"bucketCounts": []any{1.5}}},
		`the field "idKeys" is not a list of texts in UTF-8`: {"type": "gauge", "resource": map[string]any{
			"entityRefs": []any{map[string]any{"idKeys": []any{"a", 1}}}}},
		`the field "descriptionKeys" is not a list of texts in UTF-8`: {"type": "gauge", "resource": map[string]any{
			"entityRefs": []any{map[string]any{"descriptionKeys": []any{"\xff"}}}}},
	} {
		r := record.Record{After: record.Structured(payload)}
		r.Metadata.Set(otlp.KeySignal, "metrics")
		if refused := writeAll(t, d, []record.Record{r}); !strings.Contains(refused[0], want) {
			t.Errorf("%v: got %q, want %q", payload, refused[0], want)
		}
	}
}

// TestDestinationMetric sends data points that a processor made, and joins those of a metric.
func TestDestinationMetric(t *testing.T) {
	var records []record.Record
	for i, v := range []any{int64(1), 2.5, 3.0} {
		r := record.Record{After: record.Structured(map[string]any{"name": "load", "type": "gauge", "value": v,
			"time": "2026-01-02T03:04:05Z", "attributes": map[string]any{"cpu": i}})}
		r.Metadata.Set(otlp.KeySignal, "metrics")
		records = append(records, r)
	}
	data, err := otlp.RequestOf(records)
	if err != nil {
		t.Fatal(err)
	}
	all := data.(*metrics.MetricsData).ResourceMetrics[0].ScopeMetrics[0].Metrics
	points := all[0].GetGauge().GetDataPoints()
	if len(all) != 1 || len(points) != 3 || points[0].GetAsInt() != 1 || points[1].GetAsDouble() != 2.5 ||
		points[2].GetAsInt() != 3 {
		t.Errorf("got %v", all)
	}
}

// TestDestinationSettings checks the errors for settings that contradict each other.
func TestDestinationSettings(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		`"url": must be a URL`:        {"url": "collector:4317"},
		`without user, password`:      {"url": "http://u:p@collector:4317"},
		`"url": must not have a path`: {"url": "http://collector:4317/otlp"},
		`"headers.x": `:               {"url": "http://collector:4317", "headers.x": "a\nb"},
		`"log.body": `:                {"url": "http://collector:4317", "log.body": "{{ .Payload"},
		`"resource.attributes": `: {"url": "http://collector:4317",
			"resource.attributes": "a={{ .Payload"},
		`"shop" must have the form name=value`: {"url": "http://collector:4317", "log.attributes": "a=b, shop"},
		`"tls.ca": must be certificates as P`:  {"url": "https://collector:4317", "tls.ca": "/etc/ca.pem"},
	} {
		err := (&otlp.Destination{}).Configure(t.Context(), settings)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", settings, err, want)
		}
	}
}

// TestTLS sends from the destination to the source; each verifies the certificate of the other.
func TestTLS(t *testing.T) {
	serverCert, serverKey, _ := network.Certificate(t)
	clientCert, clientKey, _ := network.Certificate(t)
	s, addr := listening(t, "tls.cert", serverCert, "tls.key", serverKey, "tls.ca", clientCert)
	for _, protocol := range []string{"grpc", "http/json"} {
		d := destination(t, map[string]string{"url": "https://" + addr, "tls.ca": serverCert, "tls.cert": clientCert,
			"tls.key": clientKey, "protocol": protocol})
		written := make(chan error, 1)
		go func() { _, err := d.Write(t.Context(), plain("one")); written <- err }()
		ack(t, s, plugintest.Read(t, s, 1))
		if err := <-written; err != nil {
			t.Error(err)
		}
		for name, settings := range map[string]map[string]string{
			"no client certificate": {"url": "https://" + addr, "tls.ca": serverCert},
			"unknown authority": {"url": "https://" + addr, "tls.ca": clientCert, "tls.cert": clientCert,
				"tls.key": clientKey},
		} {
			settings["retry.timeout"], settings["protocol"] = "0s", protocol
			n, err := destination(t, settings).Write(t.Context(), plain("no"))
			if n != 0 || err == nil || !builtintest.Lost(err) {
				t.Errorf("%s, %s: wrote %d: %v", protocol, name, n, err)
			}
		}
	}
}

// TestContract checks the contract of connectors for the destination.
func TestContract(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	stores := map[string][]string{}
	plugintest.Run(t, plugintest.Target{
		Connector: otlp.Connector(),
		Destination: func(t testing.TB) map[string]string {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				data := &logs.LogsData{}
				if err := proto.Unmarshal(body, data); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				stores[server.URL] = append(stores[server.URL], bodies(data.GetResourceLogs())...)
			}))
			t.Cleanup(server.Close)
			return map[string]string{"url": server.URL, "protocol": "http/protobuf", "compression": "none"}
		},
		Written: func(_ testing.TB, settings map[string]string) []string {
			mu.Lock()
			defer mu.Unlock()
			return stores[settings["url"]]
		},
	})
}
