package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// BenchmarkWrite writes batches of raw records without a key.
func BenchmarkWrite(b *testing.B) {
	s := server.StartPostgres(b, "")
	run(b, s, "postgres", "CREATE TABLE t (id int, customer text, total numeric, placed timestamptz, note text)")
	d := sdk.Standard(postgres.Connector()).NewDestination()
	if err := d.Configure(b.Context(), map[string]string{"url": fmt.Sprintf("postgres://postgres@%s/postgres", s.Addr),
		"table": "t"}); err != nil {
		b.Fatal(err)
	}
	if err := d.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Teardown(context.Background()) }()
	const batch = 512
	records := make([]record.Record, batch)
	for i := range records {
		records[i] = record.Record{Position: record.Position("1"), Operation: record.OperationCreate,
			Key: record.Raw([]byte("1")),
			After: record.Raw(fmt.Appendf(nil,
				`{"id":%d,"customer":"customer %d","total":%.2f,"placed":"2026-01-02T03:04:05Z","note":"%s"}`, i, i,
				float64(i)*1.25, strings.Repeat("x", 50)))}
	}
	b.ReportAllocs()
	for b.Loop() {
		if n, err := d.Write(b.Context(), records); n != batch || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "records/s")
}
