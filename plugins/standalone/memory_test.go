package standalone_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// greatSource returns an endless sequence of records of the size in its settings.
type greatSource struct {
	sdk.SourceBase
	size, at int
}

func (*greatSource) Parameters() sdk.Parameters {
	return sdk.Parameters{"size": {Type: sdk.TypeInt}}
}

func (s *greatSource) Configure(_ context.Context, settings map[string]string) (err error) {
	s.size, err = strconv.Atoi(settings["size"])
	return err
}

func (*greatSource) Open(context.Context, record.Position) error { return nil }

func (s *greatSource) Read(ctx context.Context) ([]record.Record, error) {
	records := make([]record.Record, 2)
	for i := range records {
		s.at++
		records[i] = record.Record{Position: record.Position(strconv.Itoa(s.at)), Operation: record.OperationCreate,
			After: record.Raw(make([]byte, s.size))}
	}
	return records, ctx.Err()
}

func serveGreat() {
	wire.Serve(sdk.Connector{Name: "great", Version: "v1.0.0", NewSource: func() sdk.Source { return &greatSource{} }})
}

// Only one message larger than the receive-ahead limit is in memory at a time; the next one is received when the host
// reads again.
func TestGreatMessagesComeOneAtATime(t *testing.T) {
	ctx := testContext(t)
	const size = 6 << 20
	c, _ := client(t, "great")
	s := openSource(ctx, t, c, map[string]string{"size": strconv.Itoa(size)})
	for i := range 3 {
		b, err := s.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() != 1 || string(b.Position(0)) != strconv.Itoa(i+1) {
			t.Fatalf("%d records from %s on, want each in a message of its own", b.Len(), b.Position(0))
		}
		for range 100 { // calls on the connection that would carry a message received ahead
			if err := s.LifecycleOnCreated(ctx, nil); err != nil {
				t.Fatal(err)
			}
			if n := standalone.Waiting(s); n > 0 {
				t.Fatalf("%d more were received while the host asks for nothing", n)
			}
		}
	}
	if err := s.Teardown(ctx); err != nil {
		t.Errorf("teardown: %v", err)
	}
}

func TestMessagesAboveTheBound(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "great")
	c.MaxReceive = 2 << 20
	s := openSource(ctx, t, c, map[string]string{"size": strconv.Itoa(3 << 20)})
	if _, err := s.Read(ctx); err == nil || !strings.Contains(err.Error(), "too large") ||
		!strings.Contains(err.Error(), "connectors.max-message-bytes is 2097152") {
		t.Errorf("got %v", err)
	}
}
