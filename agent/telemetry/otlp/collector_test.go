package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logpb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the exporters compress
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// collector receives OTLP over HTTP and gRPC.
type collector struct {
	tracepb.UnimplementedTraceServiceServer
	logspb.UnimplementedLogsServiceServer
	metricspb.UnimplementedMetricsServiceServer

	t        *testing.T
	mu       sync.Mutex
	requests []string // guarded by mu: paths
	headers  []string // guarded by mu: values of X-Test
	spans    []*spanpb.Span
	records  []*logpb.LogRecord
	metrics  []*metricpb.Metric
	resource *resourcepb.Resource
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = z
	}
	content, err := io.ReadAll(body)
	if err != nil {
		c.t.Error(err)
	}
	var answer proto.Message
	ctx := metadata.NewIncomingContext(r.Context(), metadata.Pairs("x-test", r.Header.Get("X-Test")))
	switch r.URL.Path {
	case "/in/v1/traces":
		var m tracepb.ExportTraceServiceRequest
		c.parse(content, &m)
		answer, _ = traceServer{c}.Export(ctx, &m)
	case "/in/v1/logs":
		var m logspb.ExportLogsServiceRequest
		c.parse(content, &m)
		answer, _ = logsServer{c}.Export(ctx, &m)
	case "/in/v1/metrics":
		var m metricspb.ExportMetricsServiceRequest
		c.parse(content, &m)
		answer, _ = metricsServer{c}.Export(ctx, &m)
	default:
		c.t.Errorf("a request for %s", r.URL)
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	content, err = proto.Marshal(answer)
	if err == nil {
		_, err = io.Copy(w, bytes.NewReader(content))
	}
	if err != nil {
		c.t.Error(err)
	}
}

func (c *collector) parse(content []byte, m proto.Message) {
	if err := proto.Unmarshal(content, m); err != nil {
		c.t.Error(err)
	}
}

// received records a request, with mu held until release is called.
func (c *collector) received(ctx context.Context, signal string) (release func()) {
	c.mu.Lock()
	c.requests = append(c.requests, signal)
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		c.headers = append(c.headers, md.Get("x-test")...)
	}
	return c.mu.Unlock
}

type (
	traceServer   struct{ *collector }
	logsServer    struct{ *collector }
	metricsServer struct{ *collector }
)

// Export implements the service for traces.
func (c traceServer) Export(ctx context.Context, m *tracepb.ExportTraceServiceRequest) (
	*tracepb.ExportTraceServiceResponse, error,
) {
	defer c.received(ctx, "traces")()
	for _, r := range m.GetResourceSpans() {
		c.resource = r.GetResource()
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

// Export implements the service for logs.
func (c logsServer) Export(ctx context.Context, m *logspb.ExportLogsServiceRequest) (
	*logspb.ExportLogsServiceResponse, error,
) {
	defer c.received(ctx, "logs")()
	for _, r := range m.GetResourceLogs() {
		c.resource = r.GetResource()
		for _, s := range r.GetScopeLogs() {
			c.records = append(c.records, s.GetLogRecords()...)
		}
	}
	return &logspb.ExportLogsServiceResponse{}, nil
}

// Export implements the service for metrics.
func (c metricsServer) Export(ctx context.Context, m *metricspb.ExportMetricsServiceRequest) (
	*metricspb.ExportMetricsServiceResponse, error,
) {
	defer c.received(ctx, "metrics")()
	for _, r := range m.GetResourceMetrics() {
		c.resource = r.GetResource()
		for _, s := range r.GetScopeMetrics() {
			c.metrics = append(c.metrics, s.GetMetrics()...)
		}
	}
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

// newCollector returns a collector with its URLs for HTTP and gRPC.
func newCollector(t *testing.T) (c *collector, overHTTP, overGRPC string) {
	t.Helper()
	c = &collector{t: t}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return c, s.URL + "/in", "http://" + c.serveGRPC("127.0.0.1:0")
}

// serveGRPC serves OTLP over gRPC at an address, and returns it with its port.
func (c *collector) serveGRPC(address string) string {
	c.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		c.t.Fatal(err)
	}
	s := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(s, traceServer{c})
	logspb.RegisterLogsServiceServer(s, logsServer{c})
	metricspb.RegisterMetricsServiceServer(s, metricsServer{c})
	go func() { _ = s.Serve(l) }()
	c.t.Cleanup(s.Stop)
	return l.Addr().String()
}

// with calls f while nothing else is received.
func (c *collector) with(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// spansNamed returns the spans whose names begin with a prefix.
func (c *collector) spansNamed(prefix string) (all []*spanpb.Span) {
	c.with(func() {
		for _, s := range c.spans {
			if strings.HasPrefix(s.GetName(), prefix) {
				all = append(all, s)
			}
		}
	})
	return all
}

// hasMetric reports whether a metric with this name arrived.
func (c *collector) hasMetric(name string) (has bool) {
	c.with(func() {
		has = slices.ContainsFunc(c.metrics, func(m *metricpb.Metric) bool { return m.GetName() == name })
	})
	return has
}

// logged returns the log records as text: their bodies and attributes.
func (c *collector) logged() string {
	var b strings.Builder
	c.with(func() {
		for _, r := range c.records {
			b.WriteString(r.GetSeverityText() + " " + r.GetBody().GetStringValue())
			for _, a := range r.GetAttributes() {
				b.WriteString(" " + a.GetKey() + "=" + valueOf(a))
			}
			b.WriteByte('\n')
		}
	})
	return b.String()
}

func valueOf(a *commonpb.KeyValue) string {
	if v, ok := a.GetValue().GetValue().(*commonpb.AnyValue_StringValue); ok {
		return v.StringValue
	}
	return a.GetValue().String()
}

// attribute returns an attribute, "" if there is none.
func attribute(all []*commonpb.KeyValue, key string) string {
	for _, a := range all {
		if a.GetKey() == key {
			return valueOf(a)
		}
	}
	return ""
}
