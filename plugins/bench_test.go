package plugins_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type bareSource struct {
	sdk.SourceBase
	records []record.Record
}

func (bareSource) Parameters() sdk.Parameters                         { return nil }
func (bareSource) Configure(context.Context, map[string]string) error { return nil }
func (bareSource) Open(context.Context, record.Position) error        { return nil }
func (s *bareSource) Read(context.Context) ([]record.Record, error)   { return s.records, nil }

type bareDestination struct{ sdk.DestinationBase }

func (bareDestination) Parameters() sdk.Parameters                         { return nil }
func (bareDestination) Configure(context.Context, map[string]string) error { return nil }
func (bareDestination) Open(context.Context) error                         { return nil }
func (bareDestination) Write(_ context.Context, r []record.Record) (int, error) {
	return len(r), nil
}

// BenchmarkReadWrite measures the overhead of the host for a Read and a Write of connectors that do nothing. Unstamped
// records have no metadata and are stamped; stamped ones have it.
func BenchmarkReadWrite(b *testing.B) {
	for _, size := range []int{1, 1000} {
		for _, unstamped := range []bool{true, false} {
			name := map[bool]string{true: "unstamped", false: "stamped"}[unstamped]
			b.Run(fmt.Sprintf("%d/%s", size, name), func(b *testing.B) {
				benchmarkReadWrite(b, size, unstamped)
			})
		}
	}
}

func benchmarkReadWrite(b *testing.B, size int, unstamped bool) {
	source := &bareSource{records: records(0, size)}
	h := &plugins.Host{Builtin: []sdk.Connector{{
		Name: "bare", Version: "v1.0.0",
		NewSource:      func() sdk.Source { return source },
		NewDestination: func() sdk.Destination { return bareDestination{} },
	}}}
	src, err := h.Source(b.Context(), "bare", connectorID)
	if err != nil {
		b.Fatal(err)
	}
	dst, err := h.Destination(b.Context(), "bare", connectorID)
	if err != nil {
		b.Fatal(err)
	}
	if err := dst.Configure(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	settled := 0
	if err := dst.Open(b.Context(), func(n int, _ error) { settled += n }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if unstamped {
			for i := range source.records {
				source.records[i].Metadata = nil
			}
		}
		batch, err := src.Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := dst.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(settled), "ns/record")
	_, _ = src.Teardown(b.Context()), dst.Teardown(b.Context())
}

// BenchmarkConfigure measures the creation and configuration of a built-in connector, which is a significant part of
// starting a pipeline.
func BenchmarkConfigure(b *testing.B) {
	h := &plugins.Host{Builtin: []sdk.Connector{generator.Connector()}}
	settings := map[string]string{"rate": "1", "format.type": "structured", "format.options.id": "int",
		"format.options.name": "string"}
	b.ReportAllocs()
	for b.Loop() {
		c, err := h.Source(b.Context(), "builtin:generator", connectorID)
		if err == nil {
			err = c.Configure(b.Context(), settings)
		}
		if err != nil {
			b.Fatal(err)
		}
		_ = c.Teardown(b.Context())
	}
}
