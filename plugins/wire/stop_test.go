package wire

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// idleDestination does nothing.
type idleDestination struct{ sdk.DestinationBase }

func (idleDestination) Parameters() sdk.Parameters                          { return nil }
func (idleDestination) Configure(context.Context, map[string]string) error  { return nil }
func (idleDestination) Open(context.Context) error                          { return nil }
func (idleDestination) Write(context.Context, []record.Record) (int, error) { return 0, nil }

// stuckDestination blocks in Flush until the test frees it.
type stuckDestination struct {
	sdk.AsyncDestination
	freed chan struct{}
}

func (d stuckDestination) Flush(context.Context) error { <-d.freed; return nil }

// Stop waits at most a minute for a destination that never receives the last record, or never finishes.
func TestStopTakesAMinuteAtMost(t *testing.T) {
	for name, last := range map[string]string{"last record missing": "8", "flush hangs": "9"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDestinationServer(sdk.Standard(sdk.Connector{Name: "idle",
					NewDestination: func() sdk.Destination { return idleDestination{} }}), &sdk.Env{})
				stuck := stuckDestination{d.destination, make(chan struct{})}
				defer close(stuck.freed)
				d.destination = stuck
				d.setLast(record.Position(last))
				began := time.Now()
				_, err := d.Stop(context.Background(), &connectorv2.Destination_Stop_Request{LastPosition: []byte("9")})
				if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "1m0s") ||
					took != time.Minute {
					t.Errorf("Stop returned %v after %v", err, took)
				}
				d.ran.Add(1)
				defer d.ran.Done()
				_, err = d.Teardown(context.Background(), &connectorv2.Destination_Teardown_Request{})
				if took := time.Since(began); err == nil || took != 2*time.Minute {
					t.Errorf("Teardown returned %v after %v", err, took)
				}
			})
		})
	}
}

// schemaSource returns one record with a schema.
type schemaSource struct{ sdk.SourceBase }

func (schemaSource) Parameters() sdk.Parameters                         { return nil }
func (schemaSource) Configure(context.Context, map[string]string) error { return nil }
func (schemaSource) Open(context.Context, record.Position) error        { return nil }
func (schemaSource) Ack(context.Context, []record.Position) error       { return nil }
func (schemaSource) Read(context.Context) ([]record.Record, error) {
	r := record.Record{Position: record.Position("1"), After: record.Structured(map[string]any{"n": 1})}
	r.Metadata.Set(record.KeyPayloadSchemaSubject, "numbers")
	r.Metadata.Set(record.KeyPayloadSchemaVersion, "1")
	return []record.Record{r}, nil
}

// silentRegistry does not answer.
type silentRegistry struct{ schema.Registry }

func (silentRegistry) Get(ctx context.Context, _ string, _ int) (schema.Schema, error) {
	<-ctx.Done()
	return schema.Schema{}, ctx.Err()
}

// countingStream counts the sent messages.
type countingStream struct {
	grpc.ServerStream
	sent int
}

func (s *countingStream) SendMsg(any) error { s.sent++; return nil }

// A source that is stopped while a record waits for its schema ends without an error, and does not send the record.
func TestStopWhileEncoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSourceServer(sdk.Connector{Name: "schema", NewSource: func() sdk.Source { return schemaSource{} }},
			&sdk.Env{Schemas: silentRegistry{}})
		stream, result := &countingStream{}, make(chan error)
		go func() { result <- s.send(stream) }()
		synctest.Wait()
		stopped, err := s.Stop(t.Context(), &connectorv2.Source_Stop_Request{})
		if err != nil || len(stopped.GetLastPosition()) > 0 {
			t.Errorf("Stop returned position %q, %v", stopped.GetLastPosition(), err)
		}
		if err := <-result; err != nil || stream.sent > 0 {
			t.Errorf("reading ended with %v after %d messages", err, stream.sent)
		}
	})
}
