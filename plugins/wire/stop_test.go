package wire

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// idleDestination does nothing.
type idleDestination struct{ sdk.DestinationBase }

func (idleDestination) Parameters() sdk.Parameters                          { return nil }
func (idleDestination) Configure(context.Context, map[string]string) error  { return nil }
func (idleDestination) Open(context.Context) error                          { return nil }
func (idleDestination) Write(context.Context, []record.Record) (int, error) { return 0, nil }

// stuckDestination flushes when it is freed.
type stuckDestination struct {
	sdk.AsyncDestination
	freed chan struct{}
}

func (d stuckDestination) Flush(context.Context) error { <-d.freed; return nil }

// A destination that never gets the last record, or never finishes, is not waited for
// longer than a minute.
func TestStopTakesAMinuteAtMost(t *testing.T) {
	for name, last := range map[string]string{"last record missing": "8", "flush hangs": "9"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDestinationServer(sdk.Standard(sdk.Connector{Name: "idle", NewDestination: func() sdk.Destination { return idleDestination{} }}), &sdk.Env{})
				stuck := stuckDestination{d.destination, make(chan struct{})}
				defer close(stuck.freed)
				d.destination = stuck
				d.setLast(record.Position(last))
				began := time.Now()
				_, err := d.Stop(context.Background(), &connectorv2.Destination_Stop_Request{LastPosition: []byte("9")})
				if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "1m0s") || took != time.Minute {
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
