package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // registers the compressor
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// listening returns an opened source and its address.
func listening(t testing.TB, more ...string) (*otlp.Source, string) {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	settings := map[string]string{"addresses": addr}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return plugintest.OpenSource(t, &otlp.Source{}, settings, nil), addr
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

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func logOf(body string) *logs.LogRecord {
	return &logs.LogRecord{TimeUnixNano: 17e17 + 5, Body: text(body)}
}

// logsOf returns a request with these log records.
func logsOf(all ...*logs.LogRecord) *logs.LogsData {
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: []*common.KeyValue{{Key: "service.name", Value: text("shop")}}},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "app"}, LogRecords: all}},
	}}}
}

// answer is the answer to a request, over gRPC or HTTP.
type answer struct {
	code     codes.Code // over gRPC
	status   int        // over HTTP
	header   http.Header
	body     []byte
	err      *rpc.Status // unless the request was accepted
	rejected int64
	message  string // of a partial success
}

// dial returns a connection of a gRPC client.
func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// export sends a request with a gRPC client.
func export(ctx context.Context, c *grpc.ClientConn, data proto.Message, options ...grpc.CallOption) (a answer) {
	body, err := proto.Marshal(data)
	if err != nil {
		panic(err)
	}
	switch data.(type) {
	case *logs.LogsData:
		q := &collogs.ExportLogsServiceRequest{}
		_ = proto.Unmarshal(body, q)
		var r *collogs.ExportLogsServiceResponse
		r, err = collogs.NewLogsServiceClient(c).Export(ctx, q, options...)
		a.rejected, a.message = r.GetPartialSuccess().GetRejectedLogRecords(), r.GetPartialSuccess().GetErrorMessage()
	case *metrics.MetricsData:
		q := &colmetrics.ExportMetricsServiceRequest{}
		_ = proto.Unmarshal(body, q)
		var r *colmetrics.ExportMetricsServiceResponse
		r, err = colmetrics.NewMetricsServiceClient(c).Export(ctx, q, options...)
		a.rejected, a.message = r.GetPartialSuccess().GetRejectedDataPoints(), r.GetPartialSuccess().GetErrorMessage()
	default:
		q := &coltrace.ExportTraceServiceRequest{}
		_ = proto.Unmarshal(body, q)
		var r *coltrace.ExportTraceServiceResponse
		r, err = coltrace.NewTraceServiceClient(c).Export(ctx, q, options...)
		a.rejected, a.message = r.GetPartialSuccess().GetRejectedSpans(), r.GetPartialSuccess().GetErrorMessage()
	}
	if a.code = status.Code(err); err != nil {
		a.err = status.Convert(err).Proto()
	}
	return a
}

// post sends a body over HTTP.
func post(ctx context.Context, addr, path string, body io.Reader, headers ...string) (a answer) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, body)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{message: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	a = answer{status: resp.StatusCode, header: resp.Header}
	a.body, _ = io.ReadAll(resp.Body)
	var into proto.Message = &rpc.Status{}
	response := &collogs.ExportLogsServiceResponse{}
	if a.status == http.StatusOK {
		into = response
	} else {
		a.err = into.(*rpc.Status)
	}
	switch a.header.Get("Content-Type") {
	case "application/x-protobuf":
		err = proto.Unmarshal(a.body, into)
	case "application/json":
		err = protojson.Unmarshal(a.body, into)
	default:
		a.err = nil
	}
	if err != nil {
		a.message = err.Error()
	}
	if p := response.GetPartialSuccess(); p != nil {
		a.rejected, a.message = p.GetRejectedLogRecords(), p.GetErrorMessage()
	}
	return a
}

const (
	asProtobuf = "application/x-protobuf"
	asJSON     = "application/json"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(b); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

func zstandard(t testing.TB, b []byte) []byte {
	t.Helper()
	frame, err := zstd.NewFramer()
	if err != nil {
		t.Fatal(err)
	}
	return frame(b)
}

// senders send a request in every way in which a sender may.
func senders(t *testing.T) map[string]func(addr string, data proto.Message) answer {
	ctx := t.Context()
	path := func(data proto.Message) string {
		switch data.(type) {
		case *logs.LogsData:
			return "/v1/logs"
		case *metrics.MetricsData:
			return "/v1/metrics"
		}
		return "/v1/traces"
	}
	return map[string]func(string, proto.Message) answer{
		"grpc": func(addr string, data proto.Message) answer { return export(ctx, dial(t, addr), data) },
		"grpc, gzip": func(addr string, data proto.Message) answer {
			return export(ctx, dial(t, addr), data, grpc.UseCompressor("gzip"))
		},
		"protobuf": func(addr string, data proto.Message) answer {
			return post(ctx, addr, path(data), bytes.NewReader(marshal(t, data)), "Content-Type", asProtobuf)
		},
		"protobuf, gzip": func(addr string, data proto.Message) answer {
			return post(ctx, addr, path(data), bytes.NewReader(zipped(t, marshal(t, data))), "Content-Type", asProtobuf,
				"Content-Encoding", "gzip")
		},
		"protobuf, zstd": func(addr string, data proto.Message) answer {
			return post(ctx, addr, path(data), bytes.NewReader(zstandard(t, marshal(t, data))), "Content-Type",
				asProtobuf,
				"Content-Encoding", "zstd")
		},
		"json": func(addr string, data proto.Message) answer {
			body, err := otlp.MarshalJSON(data)
			if err != nil {
				t.Error(err)
			}
			return post(ctx, addr, path(data), bytes.NewReader(body), "Content-Type", asJSON+"; charset=utf-8")
		},
	}
}

func (a answer) accepted() bool { return a.code == codes.OK && (a.status == 0 || a.status == 200) }

// TestSourceAnswersAcknowledged checks that a request is answered when its last record is acknowledged, and not before.
func TestSourceAnswersAcknowledged(t *testing.T) {
	for name, send := range senders(t) {
		t.Run(name, func(t *testing.T) {
			s, addr := listening(t)
			for _, signal := range signalNames {
				data := newMaker(3).request(signal)
				want, _, _ := otlp.RecordsOf(signal, data, true)
				answers := make(chan answer, 1)
				go func() { answers <- send(addr, data) }()
				got := plugintest.Read(t, s, len(want))
				for i := range got {
					if !got[i].After.Equal(want[i].After) || got[i].Metadata.Get(otlp.KeySignal) != signal {
						t.Fatalf("record %d is\n%v\nwant\n%v", i, plugintest.Show(got[i:i+1]),
							plugintest.Show(want[i:i+1]))
					}
				}
				ack(t, s, got[1:]) // all but one
				if a := post(t.Context(), addr, "/v1/logs", nil, "Content-Type", asJSON); a.status != 400 {
					t.Errorf("an empty body is answered %d", a.status)
				}
				select {
				case a := <-answers:
					t.Fatalf("answered %+v before the acknowledgement", a)
				default:
				}
				ack(t, s, got[:1])
				if a := <-answers; !a.accepted() || a.rejected != 0 || a.message != "" {
					t.Errorf("answered %+v", a)
				}
			}
		})
	}
}

// TestSourceWholeRequests reads requests as they are.
func TestSourceWholeRequests(t *testing.T) {
	s, addr := listening(t, "records", "requests")
	unknown := append(marshal(t, logsOf(logOf("a"))), 0xf8, 0x07, 1) // field 127
	json := []byte(`{ "resourceLogs": [{"scopeLogs":[{"logRecords":[{}]}], "later": 1}] }`)
	for _, c := range []struct {
		body           []byte
		kind, encoding string
	}{{unknown, asProtobuf, "protobuf"}, {json, asJSON, "json"}} {
		answers := make(chan answer, 1)
		go func() {
			answers <- post(t.Context(), addr, "/v1/logs", bytes.NewReader(c.body), "Content-Type", c.kind)
		}()
		records := plugintest.Read(t, s, 1)
		if body, _ := records[0].After.Raw(); !bytes.Equal(body, c.body) ||
			records[0].Metadata.Get(otlp.KeyEncoding) != c.encoding {
			t.Errorf("read %v", plugintest.Show(records))
		}
		ack(t, s, records)
		if a := <-answers; a.status != 200 {
			t.Errorf("answered %d %s", a.status, a.body)
		}
	}
	for _, body := range []string{"{}", `{"resourceLogs":[]}`} { // nothing to wait for
		if a := post(t.Context(), addr, "/v1/logs", strings.NewReader(body), "Content-Type", asJSON); a.status != 200 ||
			string(a.body) != "{}" {
			t.Errorf("%s is answered %d %s", body, a.status, a.body)
		}
	}
}

// retryInfo reports whether a status asks for a retry.
func retryInfo(s *rpc.Status) bool {
	for _, d := range s.GetDetails() {
		if d.MessageIs(&errdetails.RetryInfo{}) {
			return true
		}
	}
	return false
}

// TestSourceFull checks the answer when as many requests wait as may: the sender is asked to retry.
func TestSourceFull(t *testing.T) {
	for name, settings := range map[string][]string{
		"requests": {"limit.requests", "1"},
		"bytes":    {"limit.bytes", "70000", "limit.requestBytes", "60000"},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := listening(t, settings...)
			answers := make(chan answer, 1)
			large := logsOf(logOf(strings.Repeat("x", 50_000)))
			go func() { answers <- export(t.Context(), dial(t, addr), large) }()
			records := plugintest.Read(t, s, 1)
			for sender, send := range senders(t) {
				a := send(addr, large)
				if over := strings.HasPrefix(sender, "grpc"); over && a.code != codes.ResourceExhausted ||
					!over && (a.status != 429 || a.header.Get("Retry-After") != "1" ||
						a.err.GetCode() != int32(codes.ResourceExhausted)) || !retryInfo(a.err) {
					t.Errorf("%s is answered %+v", sender, a)
				}
			}
			ack(t, s, records)
			if a := <-answers; a.code != codes.OK {
				t.Errorf("answered %+v", a)
			}
			go func() { answers <- export(t.Context(), dial(t, addr), large) }()
			ack(t, s, plugintest.Read(t, s, 1))
			if a := <-answers; a.code != codes.OK {
				t.Errorf("when there is room, answered %+v", a)
			}
		})
	}
}

// nested returns a value of lists in each other.
func nested(depth int) *common.AnyValue {
	v := text("x")
	for range depth {
		v = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{
			Values: []*common.AnyValue{v}}}}
	}
	return v
}

// TestSourcePartialSuccess sends items that cannot become records next to one that can.
func TestSourcePartialSuccess(t *testing.T) {
	for sender, send := range senders(t) {
		if sender == "json" { // ids of odd lengths are no JSON
			continue
		}
		s, addr := listening(t)
		answers := make(chan answer, 2)
		bad := []*logs.LogRecord{{Body: nested(otlp.MaxDepth)}, {TraceId: []byte("short")}}
		go func() { answers <- send(addr, logsOf(bad[0], logOf("good"), bad[1])) }()
		records := plugintest.Read(t, s, 1)
		if o, _ := records[0].After.Structured(); o["body"] != "good" {
			t.Errorf("%s: read %v", sender, o)
		}
		ack(t, s, records)
		want := "2 log records were rejected, the first one because a value is nested deeper than 100"
		if a := <-answers; !a.accepted() || a.rejected != 2 || a.message != want {
			t.Errorf("%s is answered %+v", sender, a)
		}
		go func() { answers <- send(addr, logsOf(bad...)) }()
		go func() { _, _ = s.Read(t.Context()) }()
		if a := <-answers; !a.accepted() || a.rejected != 2 {
			t.Errorf("%s without a good one is answered %+v", sender, a)
		}
	}
}

// TestSourceRefusesBadRequests sends invalid requests over HTTP: the answer is a status in the encoding of the
// request, and nothing is read.
func TestSourceRefusesBadRequests(t *testing.T) {
	s, addr := listening(t, "limit.requestBytes", "1000000")
	good := marshal(t, logsOf(logOf("a")))
	bomb := bytes.Repeat([]byte{0}, 4<<20)
	deep := strings.Repeat(`{"arrayValue":{"values":[`, 5000)
	for name, c := range map[string]struct {
		status int
		body   []byte
		header []string
	}{
		"truncated":          {400, good[:len(good)-1], []string{asProtobuf}},
		"json as protobuf":   {400, []byte(`{"resourceLogs":[]}`), []string{asProtobuf}},
		"protobuf as json":   {400, good, []string{asJSON}},
		"truncated json":     {400, []byte(`{"resourceLogs":[{"scopeLogs":[`), []string{asJSON}},
		"two values":         {400, []byte(`{} {}`), []string{asJSON}},
		"a list":             {400, []byte(`[]`), []string{asJSON}},
		"wrong type":         {400, []byte(`{"resourceLogs":7}`), []string{asJSON}},
		"id in base64":       {400, []byte(logJSON(`"traceId":"W47xKn9rQtO+AiI7Xm8GIA=="`)), []string{asJSON}},
		"deep json":          {400, []byte(logJSON(`"body":` + deep)), []string{asJSON}},
		"deep protobuf":      {400, marshal(t, logsOf(&logs.LogRecord{Body: nested(3000)})), []string{asProtobuf}},
		"not utf-8":          {400, []byte("\x0a\x05\x1a\x03a\xffb"), []string{asProtobuf}},
		"no gzip":            {400, good, []string{asProtobuf, "Content-Encoding", "gzip"}},
		"truncated gzip":     {400, zipped(t, good)[:30], []string{asProtobuf, "Content-Encoding", "gzip"}},
		"no zstd":            {400, good, []string{asProtobuf, "Content-Encoding", "zstd"}},
		"unknown encoding":   {415, good, []string{asProtobuf, "Content-Encoding", "br"}},
		"gzip bomb":          {413, zipped(t, bomb), []string{asProtobuf, "Content-Encoding", "gzip"}},
		"zstd bomb":          {413, zstandard(t, bomb), []string{asProtobuf, "Content-Encoding", "zstd"}},
		"too large":          {413, bomb, []string{asProtobuf}},
		"wrong content type": {415, good, []string{"text/plain"}},
		"no content type":    {415, good, []string{""}},
	} {
		a := post(t.Context(), addr, "/v1/logs", bytes.NewReader(c.body), append([]string{"Content-Type"},
			c.header...)...)
		if a.status != c.status {
			t.Errorf("%s is answered %d %s", name, a.status, a.body)
		}
		if kind := c.header[0]; kind != "text/plain" && kind != "" &&
			(a.header.Get("Content-Type") != kind || a.err.GetMessage() == "" || a.err.GetCode() == 0) {
			t.Errorf("%s is answered with the status %v as %s", name, a.err, a.header.Get("Content-Type"))
		}
	}
	unknownLength := struct{ io.Reader }{bytes.NewReader(bomb)}
	if a := post(t.Context(), addr, "/v1/logs", unknownLength, "Content-Type", asProtobuf); a.status != 413 {
		t.Errorf("a chunked body that is too large is answered %d %s", a.status, a.message)
	}
	if a := post(t.Context(), addr, "/v1/other", nil, "Content-Type", asProtobuf); a.status != 404 {
		t.Errorf("another path is answered %d", a.status)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/logs", nil)
	if resp, err := http.DefaultClient.Do(r); err != nil || resp.Body.Close() != nil ||
		resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered %v %v", resp, err)
	}
	if n := *s.Progress().Records; n != 0 {
		t.Errorf("%d records wait", n)
	}
}

// TestSourceRefusesBadCalls sends invalid calls over gRPC.
func TestSourceRefusesBadCalls(t *testing.T) {
	_, addr := listening(t, "limit.requestBytes", "1000000")
	const method = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	h2 := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	frame := func(compressed byte, length int, body []byte) []byte {
		return append([]byte{compressed, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)},
			body...)
	}
	good, bomb := marshal(t, logsOf(logOf("a"))), bytes.Repeat([]byte{0}, 4<<20)
	for name, c := range map[string]struct {
		code     codes.Code
		body     []byte
		encoding string
	}{
		"nothing":       {codes.InvalidArgument, nil, ""},
		"half a prefix": {codes.InvalidArgument, []byte{0, 0}, ""},
		"wrong prefix":  {codes.InvalidArgument, frame(2, len(good), good), ""},
		"short message": {codes.InvalidArgument, frame(0, len(good)+1, good), ""},
		"two messages": {codes.InvalidArgument, append(frame(0, len(good), good), frame(0, len(good), good)...),
			""},
		"no message":         {codes.InvalidArgument, frame(0, 3, []byte("xyz")), ""},
		"huge message":       {codes.ResourceExhausted, frame(0, 1<<31, nil), ""},
		"no encoding":        {codes.InvalidArgument, frame(1, len(good), good), ""},
		"unknown encoding":   {codes.Unimplemented, frame(1, len(good), good), "br"},
		"gzip that is none":  {codes.InvalidArgument, frame(1, len(good), good), "gzip"},
		"gzip bomb":          {codes.ResourceExhausted, frame(1, len(zipped(t, bomb)), zipped(t, bomb)), "gzip"},
		"zstd bomb":          {codes.ResourceExhausted, frame(1, len(zstandard(t, bomb)), zstandard(t, bomb)), "zstd"},
		"large uncompressed": {codes.ResourceExhausted, frame(0, len(bomb), bomb), ""},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+method, bytes.NewReader(c.body))
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		if c.encoding != "" {
			r.Header.Set("Grpc-Encoding", c.encoding)
		}
		resp, err := h2.Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if got := resp.Trailer.Get("Grpc-Status"); got != fmt.Sprint(uint32(c.code)) || resp.StatusCode != http.StatusOK {
			t.Errorf("%s is answered %d, code %q %q, want %d", name, resp.StatusCode, got,
				resp.Trailer.Get("Grpc-Message"),
				c.code)
		}
	}
	err := dial(t, addr).Invoke(t.Context(), "/a.B/C", &rpc.Status{}, &rpc.Status{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method is answered %v", err)
	}
	a := post(t.Context(), addr, method, bytes.NewReader(frame(0, len(good), good)), "Content-Type", "application/grpc")
	if a.status != 415 {
		t.Errorf("gRPC over HTTP/1.1 is answered %d", a.status)
	}
}

// TestSourceMemory sends requests that would take much more memory than their size.
func TestSourceMemory(t *testing.T) {
	s := &otlp.Source{}
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	if err := s.Configure(t.Context(), map[string]string{"addresses": addr}); err != nil {
		t.Fatal(err)
	}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), Budget: 10 << 20})
	if err := s.Open(ctx, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.WithoutCancel(t.Context())) })
	many := slices.Repeat([]*logs.LogRecord{{}}, 100_000)
	for kind, body := range map[string][]byte{
		asProtobuf: marshal(t, logsOf(many...)),
		asJSON: []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + strings.Repeat("{},",
			99_999) + `{}]}]}]}`),
	} {
		a := post(t.Context(), addr, "/v1/logs", bytes.NewReader(body), "Content-Type", kind)
		if a.status != 413 || !strings.Contains(a.err.GetMessage(), "too much memory") {
			t.Errorf("%s is answered %d %v", kind, a.status, a.err)
		}
	}
}

// logJSON returns a request in JSON with one log record with these members.
func logJSON(members string) string {
	return `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{` + members + `}]}]}]}`
}

// TestSourceJSON checks the rules of OTLP/JSON.
func TestSourceJSON(t *testing.T) {
	id := "5B8EFFF798038103D269B633813FC60C"
	for body, want := range map[string]string{
		`"traceId":"` + id + `","spanId":"eee19b7ec3c1b174"`: `{"spanId":"eee19b7ec3c1b174","traceId":"` +
			strings.ToLower(id) + `"}`,
		`"timeUnixNano":"1544712660300000000"`:                                `{"time":"2018-12-13T14:51:00.3Z"}`,
		`"timeUnixNano":1544712660300000000`:                                  `{"time":"2018-12-13T14:51:00.3Z"}`,
		`"severityNumber":9,"later":{"x":[1]}`:                                `{"severityNumber":9}`,
		`"body":{"intValue":"9223372036854775807"},"traceId":"","flags":null`: `{"body":9223372036854775807}`,
		`"body":{"doubleValue":"NaN"}`:                                        `{"body":"NaN"}`,
		`"body":{"bytesValue":"AQI="}`:                                        `{"body":"AQI="}`,
		`"body":{}`:                                                           `{"body":null}`,
		`"attributes":[{"key":"a","value":{"stringValue":"b"}},{"key":"a","value":{"intValue":1}}]`: `{"attributes":{` +
			`"a":["b",1]}}`,
	} {
		data := otlp.NewData("logs")
		if err := otlp.UnmarshalJSON([]byte(logJSON(body)), data); err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		records, _, reason := otlp.RecordsOf("logs", data, true)
		if len(records) != 1 {
			t.Errorf("%s: %v", body, reason)
			continue
		}
		if got, err := records[0].After.AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	digits, _ := hex.DecodeString(id)
	data := logsOf(&logs.LogRecord{TraceId: digits, SeverityNumber: 9})
	if got, err := otlp.MarshalJSON(data); err != nil || !strings.Contains(string(got), strings.ToLower(id)) ||
		strings.Contains(string(got), "SEVERITY") {
		t.Errorf("got %s %v", got, err)
	}
}

// TestSourceGivesUp checks the answer when records are not acknowledged in time, and when the source ends.
func TestSourceGivesUp(t *testing.T) {
	for sender, send := range senders(t) {
		slow, addr := listening(t, "ack.timeout", "1ms")
		a := send(addr, logsOf(logOf("a")))
		if !unavailable(a) || !strings.Contains(a.err.GetMessage(), "not written within 1ms") {
			t.Errorf("%s is answered %+v", sender, a)
		}
		if n := *slow.Progress().Records; n != 0 {
			t.Errorf("%d records of a request that was given up wait", n)
		}
		s, addr := listening(t)
		answers := make(chan answer, 1)
		go func() { answers <- send(addr, logsOf(logOf("a"))) }()
		plugintest.Read(t, s, 1)
		if err := s.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
		if a := <-answers; !unavailable(a) || a.err.GetMessage() != "the pipeline has stopped" {
			t.Errorf("%s is answered %+v", sender, a)
		}
	}
}

func unavailable(a answer) bool {
	return (a.code == codes.Unavailable || a.status == 503 && a.header.Get("Retry-After") == "1") && retryInfo(a.err)
}

// TestSourceSenderLeaves checks that the unread records of a sender that does not wait are dropped.
func TestSourceSenderLeaves(t *testing.T) {
	s, addr := listening(t)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan answer, 1)
	go func() { left <- export(ctx, dial(t, addr), logsOf(logOf("a"))) }()
	wait.For(t, "the record waits", func() bool { return *s.Progress().Records == 1 })
	cancel()
	<-left
	wait.For(t, "the record is dropped", func() bool { return *s.Progress().Records == 0 })
}

// TestSourceToken checks the credentials of requests.
func TestSourceToken(t *testing.T) {
	s, addr := listening(t, "auth.token", "word")
	for _, header := range []string{"", "word", "Bearer wor", "Basic word"} {
		ctx := t.Context()
		if header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", header)
		}
		if a := export(ctx, dial(t, addr), logsOf(logOf("a"))); a.code != codes.Unauthenticated {
			t.Errorf("%q is answered %+v", header, a)
		}
		if a := post(t.Context(), addr, "/v1/logs", strings.NewReader("{}"), "Content-Type", asJSON, "Authorization",
			header); a.status != 401 || a.err.GetCode() != int32(codes.Unauthenticated) {
			t.Errorf("%q is answered %+v", header, a)
		}
	}
	answers := make(chan answer, 1)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer word")
	go func() { answers <- export(ctx, dial(t, addr), logsOf(logOf("a"))) }()
	ack(t, s, plugintest.Read(t, s, 1))
	if a := <-answers; a.code != codes.OK {
		t.Errorf("answered %+v", a)
	}
}

// TestSourceMetadata checks the metadata of records, with resource and scope in them.
func TestSourceMetadata(t *testing.T) {
	s, addr := listening(t, "resource", "metadata")
	go export(t.Context(), dial(t, addr), logsOf(&logs.LogRecord{ObservedTimeUnixNano: 7,
		Body: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 2}}}, logOf("b"),
		&logs.LogRecord{TimeUnixNano: math.MaxUint64}))
	records := plugintest.Read(t, s, 3)
	ack(t, s, records)
	late := records[2].Metadata.Get(record.KeyCreatedAt) // a time that is no int64
	if n, err := strconv.ParseInt(late, 10, 64); err != nil || n <= 0 {
		t.Errorf("%s is %q", record.KeyCreatedAt, late)
	}
	records = records[:2]
	for i := range records {
		m := records[i].Metadata
		if m.Get(otlp.KeyResource) != `{"attributes":{"service.name":"shop"}}` ||
			m.Get(otlp.KeyScope) != `{"name":"app"}` ||
			m.Get(otlp.KeySignal) != "logs" || !strings.HasPrefix(m.Get("otlp.remoteAddress"), "127.0.0.1:") {
			t.Errorf("the metadata are %v", m)
		}
		want := [][2]string{{"7", `{"/body":"double"}`}, {"1700000000000000005", ""}}[i]
		if m.Get(record.KeyCreatedAt) != want[0] || m.Get(otlp.KeyTypes) != want[1] {
			t.Errorf("the metadata are %v, want %v", m, want)
		}
	}
}

// TestSourceSettings checks the errors for settings that contradict each other.
func TestSourceSettings(t *testing.T) {
	cert, _, _ := network.Certificate(t)
	for want, settings := range map[string]map[string]string{
		`0.0.0.0:4317 can be reached`:          {"addresses": "127.0.0.1:4318, 0.0.0.0:4317"},
		`"addresses": must be hosts and ports`: {"addresses": "4317"},
		`127.0.0.1:1 appears twice`:            {"addresses": "127.0.0.1:1,127.0.0.1:1"},
		`"tls.ca": needs tls.cert`:             {"tls.ca": cert, "addresses": ":1"},
		`"limit.requestBytes": must be`:        {"limit.bytes": "10"},
		`"addresses": must be HOST:PORT`:       {"addresses": "user:password@host:1"},
	} {
		err := (&otlp.Source{}).Configure(t.Context(), settings)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", settings, err, want)
		}
	}
	for _, good := range []map[string]string{{}, {"addresses": ":1", "auth.token": "x"},
		{"addresses": ":1", "auth.allowAnonymous": "true"}} {
		if err := (&otlp.Source{}).Configure(t.Context(), good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
}
