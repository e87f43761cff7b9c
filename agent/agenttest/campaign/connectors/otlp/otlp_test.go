package otlp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// listening returns an opened source and its address.
func listening(t testing.TB) (*otlp.Source, string) {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	return plugintest.OpenSource(t, &otlp.Source{}, map[string]string{"addresses": addr}, nil), addr
}

func ack(t testing.TB, s sdk.Source, records []record.Record) {
	t.Helper()
	var positions []record.Position
	for i := range records {
		positions = append(positions, records[i].Position)
	}
	if err := s.Ack(t.Context(), positions); err != nil {
		t.Fatal(err)
	}
}

// emit makes a log record, a span and a sum with the SDK, and sends each to addr. It returns when all are acknowledged.
func emit(ctx context.Context, addr string) error {
	res := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.Int("workers", 2),
		attribute.Float64("share", 1))
	logs, err := otlploggrpc.New(ctx, otlploggrpc.WithEndpoint(addr), otlploggrpc.WithInsecure(),
		otlploggrpc.WithCompressor("gzip"))
	if err != nil {
		return err
	}
	logger := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewSimpleProcessor(logs)))
	var l log.Record
	l.SetBody(attribute.MapValue(attribute.String("text", "sold out"), attribute.Float64("price", 2)))
	l.SetSeverity(log.SeverityWarn)
	l.AddAttributes(attribute.Int("n", 7), attribute.ByteSlice("id", []byte{0xff, 0}),
		attribute.Slice("tags", attribute.BoolValue(true)))
	logger.Logger("app").Emit(ctx, l)

	traces, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(addr), otlptracehttp.WithInsecure(),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return err
	}
	tracer := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSyncer(traces))
	_, span := tracer.Tracer("app").Start(ctx, "order")
	span.AddEvent("paid", trace.WithAttributes(attribute.Int64Slice("ids", []int64{1, 2})))
	span.SetStatus(codes.Error, "no stock")
	span.End()

	points, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(addr), otlpmetricgrpc.WithInsecure())
	if err != nil {
		return err
	}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points)))
	orders, err := meter.Meter("app").Int64Counter("orders")
	if err != nil {
		return err
	}
	orders.Add(ctx, 3)
	if err := meter.ForceFlush(ctx); err != nil {
		return err
	}
	for _, end := range []func(context.Context) error{logger.Shutdown, tracer.Shutdown} {
		if err := end(ctx); err != nil {
			return err
		}
	}
	return nil
}

// received reads n records, and acknowledges each.
func received(t *testing.T, s sdk.Source, n int) (all []record.Record) {
	t.Helper()
	for len(all) < n {
		some := plugintest.Read(t, s, 1)
		ack(t, s, some)
		all = append(all, some...)
	}
	return all
}

// emitted returns the records of emit: a log record, a span and a data point.
func emitted(t *testing.T) []record.Record {
	t.Helper()
	s, addr := listening(t)
	sent := make(chan error, 1)
	go func() { sent <- emit(t.Context(), addr) }()
	records := received(t, s, 3)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return records
}

// TestSDK receives from the Go SDK of OpenTelemetry, over gRPC and HTTP.
func TestSDK(t *testing.T) {
	load.Parallel(t, load.Agent)
	records := emitted(t)
	for i, want := range []string{
		`"attributes":{"id":"/wA=","n":7,"tags":[true]},"body":{"price":2,"text":"sold out"}`,
		`"events":[{"attributes":{"ids":[1,2]},"name":"paid",`, `"monotonic":true,"name":"orders"`,
	} {
		text, err := records[i].After.AppendJSON(nil)
		if err != nil || !strings.Contains(string(text), want) ||
			!strings.Contains(string(text), `"resource":{"attributes":{"service.name":"shop","share":1,"workers":2}`) {
			t.Errorf("record %d is %s %v, want %s", i, text, err, want)
		}
	}
}

// unqueued makes an exporter return only when the receiver has answered.
const unqueued = "sending_queue: {enabled: false}}"

// TestCollector sends records of the SDK to a collector, which sends them to a source: nothing changes.
func TestCollector(t *testing.T) {
	load.Parallel(t, load.Server)
	records := emitted(t)
	for exporter, line := range map[string]string{
		"otlp_grpc": `otlp_grpc: {endpoint: "%s", compression: zstd, tls: {insecure: true}, ` + unqueued,
		"otlp_http": `otlp_http: {endpoint: "http://%s", encoding: json, compression: zstd, ` + unqueued,
	} {
		s, addr := listening(t)
		c := server.StartOTelCollector(t, fmt.Sprintf(line, addr), exporter)
		for protocol, url := range map[string]string{"grpc": c.GRPC, "http/protobuf": c.HTTP, "http/json": c.HTTP} {
			for _, compression := range []string{"none", "gzip", "zstd"} {
				name := fmt.Sprintf("%s, %s, then %s", protocol, compression, exporter)
				d := &otlp.Destination{}
				if err := d.Configure(t.Context(), map[string]string{"url": "http://" + url, "protocol": protocol,
					"compression": compression}); err != nil {
					t.Fatal(err)
				}
				if err := d.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				written := make(chan error, 1)
				go func() { _, err := d.Write(t.Context(), records); written <- err }()
				got := received(t, s, len(records))
				if err := <-written; err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for i := range got {
					if !got[i].After.Equal(records[i].After) {
						t.Errorf("%s: got\n%v\nwant\n%v", name, plugintest.Show(got[i:i+1]),
							plugintest.Show(records[i:i+1]))
					}
				}
				if err := d.Teardown(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestCollectorRetries lets a source refuse the requests of a collector until there is room: the collector asks the
// destination to send again, and nothing is lost.
func TestCollectorRetries(t *testing.T) {
	load.Parallel(t, load.Server)
	addr := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	s := plugintest.OpenSource(t, &otlp.Source{}, map[string]string{"addresses": addr, "limit.requests": "1"}, nil)
	c := server.StartOTelCollector(t, fmt.Sprintf(`otlp_grpc: {endpoint: "%s", tls: {insecure: true}, `+
		`sending_queue: {enabled: false}, retry_on_failure: {enabled: false}}`, addr), "otlp_grpc")
	records := emitted(t)
	written := make(chan error, 2)
	for range 2 {
		d := &otlp.Destination{}
		if err := d.Configure(t.Context(), map[string]string{"url": "http://" + c.GRPC}); err != nil {
			t.Fatal(err)
		}
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
		go func() { _, err := d.Write(t.Context(), records); written <- err }()
	}
	received(t, s, 2*len(records))
	for range 2 {
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}
