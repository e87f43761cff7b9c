package plugins_test

import (
	"context"
	"testing"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// namedSource returns the id that it received.
type namedSource struct {
	sdk.SourceBase
	id string
}

func (s *namedSource) Parameters() sdk.Parameters { return nil }

func (s *namedSource) Configure(context.Context, map[string]string) error { return nil }

func (s *namedSource) Open(ctx context.Context, _ record.Position) error {
	s.id = sdk.EnvFrom(ctx).ConnectorID
	return nil
}

func (s *namedSource) Read(ctx context.Context) ([]record.Record, error) {
	if s.id == "" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := record.Record{Position: record.Position("1"), Operation: record.OperationCreate,
		After: record.Raw([]byte(s.id))}
	s.id = ""
	return []record.Record{r}, nil
}

func (s *namedSource) Ack(context.Context, []record.Position) error { return nil }

func (s *namedSource) Teardown(context.Context) error { return nil }

// Each instance of a pipeline has its own connector id for the plugin. Its records have the id from the file.
func TestInstancesHaveNames(t *testing.T) {
	h := newHost(sdk.Connector{NewSource: func() sdk.Source { return &namedSource{} }})
	s, err := h.Source(t.Context(), "fake", connector.InstanceID("p:in", 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Configure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	batch, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	records, err := batch.Records()
	if err != nil || len(records) != 1 {
		t.Fatalf("it read %d records: %v", len(records), err)
	}
	named, _ := records[0].After.Raw()
	if stamped := records[0].Metadata.Get(record.KeySourceConnectorID); string(named) != "p:in/instance-2" ||
		stamped != "p:in" {
		t.Errorf("it knows itself as %q, and its records are of %q", named, stamped)
	}
	if err := s.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
}
