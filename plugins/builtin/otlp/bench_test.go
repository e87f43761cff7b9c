package otlp_test

import (
	"fmt"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
)

// typical returns a request with n log records as applications send them.
func typical(n int) *logs.LogsData {
	all := make([]*logs.LogRecord, n)
	for i := range all {
		all[i] = &logs.LogRecord{TimeUnixNano: 17e17, ObservedTimeUnixNano: 17e17, SeverityNumber: 9,
			SeverityText: "INFO",
			Body:         text(fmt.Sprintf("GET /orders/%d HTTP/1.1 finished without an error in 17 ms", i)),
			TraceId:      make([]byte, 16), SpanId: make([]byte, 8),
			Attributes: []*common.KeyValue{
				{Key: "http.request.method", Value: text("GET")}, {Key: "http.route", Value: text("/orders/{id}")},
				{Key: "http.response.status_code",
					Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 200}}},
				{Key: "server.address", Value: text("shop.example.com")},
			}}
	}
	return logsOf(all...)
}

// BenchmarkSource makes records of a received request: estimates its memory, decodes it and converts its items.
func BenchmarkSource(b *testing.B) {
	const n = 1000
	body := marshal(b, typical(n))
	for _, inBody := range []bool{true, false} {
		b.Run(fmt.Sprintf("in body: %t", inBody), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				data := otlp.NewData("logs")
				if _, err := otlp.ProtobufMemory(body, data.ProtoReflect().Descriptor(), 0); err != nil {
					b.Fatal(err)
				}
				if err := proto.Unmarshal(body, data); err != nil {
					b.Fatal(err)
				}
				if records, _, _ := otlp.RecordsOf("logs", data, inBody); len(records) != n {
					b.Fatal(len(records))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
	b.Run("estimate", func(b *testing.B) {
		for b.Loop() {
			if _, err := otlp.ProtobufMemory(body, (&logs.LogsData{}).ProtoReflect().Descriptor(), 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if err := proto.Unmarshal(body, otlp.NewData("logs")); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	})
}

// BenchmarkDestination makes requests of records.
func BenchmarkDestination(b *testing.B) {
	const n = 1000
	for _, inBody := range []bool{true, false} {
		records, _, _ := otlp.RecordsOf("logs", typical(n), inBody)
		b.Run(fmt.Sprintf("in body: %t", inBody), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := otlp.RequestOf(records)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := proto.Marshal(data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
