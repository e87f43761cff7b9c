package sqlsink_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// BenchmarkWrite converts lines of JSON, keyed by line number, to changes.
func BenchmarkWrite(b *testing.B) {
	d := &database{columns: []string{"id", "customer", "total", "placed", "note"}}
	w := &sqlsink.Writer[int]{Database: d}
	if err := w.Configure(b.Context(), sqlsink.Settings{Table: "t"}); err != nil {
		b.Fatal(err)
	}
	ctx := sdk.WithEnv(b.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler)})
	if err := w.Open(ctx); err != nil {
		b.Fatal(err)
	}
	var all []record.Record
	for i := range 1000 {
		line := fmt.Sprintf(`{"id":%d,"customer":"customer `+
			`%d","total":%d.25,"placed":"2026-01-02T03:04:05Z","note":"%s"}`, i, i, i, strings.Repeat("x", 50))
		all = append(all, record.Record{Position: record.Position(strconv.Itoa(i)), Operation: record.OperationCreate,
			Key: record.Raw([]byte(strconv.Itoa(i))), After: record.Raw([]byte(line))})
	}
	b.ReportAllocs()
	for b.Loop() {
		if n, err := w.Write(ctx, all); n != len(all) || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/record")
}
