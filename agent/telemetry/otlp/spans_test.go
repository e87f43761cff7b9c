package otlp_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/telemetry/otlp"
	"github.com/conduit-agent/conduit/plugins/record"
)

// settings returns the settings for an endpoint.
func settings(endpoint, signals string) config.Telemetry {
	return config.Telemetry{OTLP: config.OTLP{Endpoint: endpoint, Protocol: "http"}, Signals: signals,
		Traces: config.Traces{OneIn: 1}, Metrics: config.Metrics{Interval: time.Hour}}
}

// exporting returns an exporter, and a function that makes it send everything.
func exporting(t *testing.T, s config.Telemetry) (e *otlp.Exporter, send func()) {
	t.Helper()
	e, err := otlp.New(otlp.Options{Settings: s, Version: "v1.2.3", Instance: "edge-1",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		over, end := context.WithCancel(t.Context())
		end()
		if err := e.Run(over, prometheus.NewRegistry()); err != nil {
			t.Error(err)
		}
	}
}

// Trace contexts of other systems: the first two belong to the same trace and are sampled, the third is not.
const (
	sampled   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	another   = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// batchOf returns a batch of records with these contexts, none for "".
func batchOf(contexts ...string) *record.Batch {
	records := make([]record.Record, len(contexts))
	for i, c := range contexts {
		records[i] = record.Record{Position: record.Position(strconv.Itoa(i)), After: record.Raw([]byte("x"))}
		parent, state, _ := strings.Cut(c, " ")
		if parent != "" {
			records[i].Metadata.Set(record.KeyTraceParent, parent)
		}
		if state != "" {
			records[i].Metadata.Set(record.KeyTraceState, state)
		}
	}
	return record.NewBatch(records)
}

func read(b *record.Batch) engine.ReadBatch {
	begin := time.Unix(1_800_000_000, 0)
	return engine.ReadBatch{Pipeline: "orders", Source: "orders:in", Records: b, Begin: begin,
		End: begin.Add(time.Second)}
}

func TestSpansOfABatch(t *testing.T) {
	c, overHTTP, _ := newCollector(t)
	e, send := exporting(t, settings(overHTTP, "traces"))
	b := batchOf(sampled, another, sampled, "", "00-nonsense")
	trace := e.Tracer().Start(read(b))
	begin := time.Unix(1_800_000_001, 0)
	trace.Add(engine.TracedStage{Stage: engine.TracedProcess, ID: "orders", Records: 5, Begin: begin,
		End: begin.Add(time.Second)})
	trace.Add(engine.TracedStage{Stage: engine.TracedWrite, ID: "orders:out", Records: 4, Begin: begin.Add(time.Second),
		End: begin.Add(2 * time.Second), Err: errors.New("no such table")})
	trace.Add(engine.TracedStage{Stage: engine.TracedCommit, Records: 5, Begin: begin.Add(2 * time.Second),
		End: begin.Add(3 * time.Second)})
	trace.End(nil)
	send()

	roots := c.spansNamed("batch orders")
	if len(roots) != 1 {
		t.Fatalf("%d spans of batches arrived", len(roots))
	}
	root := roots[0]
	if root.GetKind() != spanpb.Span_SPAN_KIND_CONSUMER || len(root.GetParentSpanId()) > 0 ||
		hex.EncodeToString(root.GetTraceId()) == sampled[3:35] || root.GetStatus().GetCode() != 0 {
		t.Errorf("the span of the batch is %v", root)
	}
	if len(root.GetLinks()) != 2 || hex.EncodeToString(root.GetLinks()[0].GetSpanId()) != sampled[36:52] ||
		hex.EncodeToString(root.GetLinks()[1].GetSpanId()) != another[36:52] {
		t.Errorf("the links are %v", root.GetLinks())
	}
	for key, want := range map[string]string{"conduit.pipeline.id": "orders", "conduit.connector.id": "orders:in",
		"conduit.records": "int_value:5"} {
		if got := attribute(root.GetAttributes(), key); got != want {
			t.Errorf("attribute %s is %q, want %q", key, got, want)
		}
	}
	for _, want := range []struct {
		name, connector string
		kind            spanpb.Span_SpanKind
		records         string
		begin           int64
		failed          string
	}{
		{"read orders:in", "orders:in", spanpb.Span_SPAN_KIND_INTERNAL, "5", 0, ""},
		{"process orders", "orders", spanpb.Span_SPAN_KIND_INTERNAL, "5", 1, ""},
		{"write orders:out", "orders:out", spanpb.Span_SPAN_KIND_PRODUCER, "4", 2, "no such table"},
		{"commit", "", spanpb.Span_SPAN_KIND_INTERNAL, "5", 3, ""},
	} {
		all := c.spansNamed(want.name)
		if len(all) != 1 {
			t.Errorf("%d spans %q", len(all), want.name)
			continue
		}
		s, start := all[0], time.Unix(1_800_000_000+want.begin, 0)
		if string(s.GetParentSpanId()) != string(root.GetSpanId()) || s.GetKind() != want.kind ||
			s.GetStartTimeUnixNano() != uint64(start.UnixNano()) ||
			s.GetEndTimeUnixNano() != uint64(start.Add(time.Second).UnixNano()) ||
			attribute(s.GetAttributes(), "conduit.connector.id") != want.connector ||
			attribute(s.GetAttributes(), "conduit.records") != "int_value:"+want.records ||
			s.GetStatus().GetMessage() != want.failed {
			t.Errorf("%s: %v", want.name, s)
		}
	}
	for key, want := range map[string]string{"service.name": "conduit", "service.version": "v1.2.3",
		"service.instance.id": "edge-1"} {
		if got := attribute(c.resource.GetAttributes(), key); got != want {
			t.Errorf("%s of the resource is %q, want %q", key, got, want)
		}
	}
	parent := "00-" + hex.EncodeToString(root.GetTraceId()) + "-" + hex.EncodeToString(root.GetSpanId()) + "-01"
	for i := range b.Len() {
		if got := b.Metadata(i, record.KeyTraceParent); got != parent {
			t.Errorf("record %d carries %q, want %q", i, got, parent)
		}
	}
}

func TestSampling(t *testing.T) {
	_, overHTTP, _ := newCollector(t)
	for _, tt := range []struct {
		name     string
		oneIn    int
		contexts []string
		want     bool
		trace    string // id of the trace, "": a new one
	}{
		{"every batch", 1, []string{"", ""}, true, ""},
		{"hardly any batch", 1 << 40, []string{"", ""}, false, ""},
		{"a sampled context", 1 << 40, []string{sampled, sampled}, true, sampled[3:35]},
		{"a context of some records", 1 << 40, []string{sampled, ""}, true, ""},
		{"several contexts", 1 << 40, []string{unsampled, sampled, another}, true, ""},
		{"a context that is not sampled", 1, []string{unsampled}, false, ""},
		{"only such contexts", 1, []string{unsampled, "", unsampled}, false, ""},
		{"an invalid context", 1, []string{"00-00000000000000000000000000000000-00f067aa0ba902b7-00"}, true, ""},
	} {
		s := settings(overHTTP, "traces")
		s.Traces.OneIn = tt.oneIn
		e, send := exporting(t, s)
		b := batchOf(tt.contexts...)
		trace := e.Tracer().Start(read(b))
		if got := trace != nil; got != tt.want {
			t.Errorf("%s: sampled: %t", tt.name, got)
		}
		for i := range b.Len() {
			carried := b.Metadata(i, record.KeyTraceParent)
			switch {
			case !tt.want && carried != tt.contexts[i]:
				t.Errorf("%s: record %d of a batch that is not sampled carries %q", tt.name, i, carried)
			case tt.want && (len(carried) != 55 || carried == tt.contexts[i]):
				t.Errorf("%s: record %d carries %q", tt.name, i, carried)
			case tt.trace != "" && carried[3:35] != tt.trace,
				tt.want && tt.trace == "" && strings.Contains(strings.Join(tt.contexts, " "), carried[3:35]):
				t.Errorf("%s: record %d carries trace %s", tt.name, i, carried[3:35])
			}
		}
		send()
	}
}

func TestTraceStates(t *testing.T) {
	_, overHTTP, _ := newCollector(t)
	e, _ := exporting(t, settings(overHTTP, "traces"))
	b := batchOf(sampled+" vendor=1", sampled+" vendor=1")
	e.Tracer().Start(read(b))
	if got := b.Metadata(1, record.KeyTraceState); got != "vendor=1" {
		t.Errorf("a batch that continues a trace carries the state %q", got)
	}
	b = batchOf(sampled+" vendor=1", another+" vendor=2")
	e.Tracer().Start(read(b))
	if got := b.Metadata(0, record.KeyTraceState) + b.Metadata(1, record.KeyTraceState); got != "" {
		t.Errorf("a batch of a new trace carries the state %q", got)
	}
}

// A batch of a thousand traces has a bounded number of links.
func TestLinksAreBounded(t *testing.T) {
	c, overHTTP, _ := newCollector(t)
	e, send := exporting(t, settings(overHTTP, "traces"))
	var contexts []string
	for i := range 1000 {
		id := strconv.Itoa(1000 + i)
		contexts = append(contexts, "00-4bf92f3577b34da6a3ce929d0e0e"+id+"-00f067aa0ba902b7-01")
	}
	e.Tracer().Start(read(batchOf(contexts...))).End(errors.New("the run failed"))
	send()
	roots := c.spansNamed("batch orders")
	if len(roots) != 1 || len(roots[0].GetLinks()) != 128 || roots[0].GetStatus().GetMessage() != "the run failed" {
		t.Errorf("the spans of the batch are %v", roots)
	}
}
