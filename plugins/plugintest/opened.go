package plugintest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Opened is a source that a test reads by the record. Its methods fail the test on any error.
type Opened struct {
	testing.TB
	sdk.Source
	Ctx context.Context // with the environment of the connector

	ahead []record.Record
	torn  bool
}

// openedTimeout limits the wait of an Opened for more records. Only a failing test waits for so long.
const openedTimeout = 2 * time.Minute

// NewOpened returns a source of c, with the sdk.* settings, that is not open yet.
func NewOpened(t testing.TB, c sdk.Connector, id string) *Opened {
	return &Opened{TB: t, Source: sdk.Standard(c).NewSource(), Ctx: Context(t, c, id)}
}

// Context returns a context with the environment of a connector with this id.
func Context(t testing.TB, c sdk.Connector, id string) context.Context {
	return sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: id, PluginName: "builtin:" + c.Name,
		Logger: slog.New(slog.DiscardHandler), Schemas: &schema.Memory{}})
}

// TryOpen configures and opens the source. It is closed when the test ends.
func (o *Opened) TryOpen(settings map[string]string, pos record.Position) error {
	o.Cleanup(o.Close)
	if err := o.Configure(o.Ctx, settings); err != nil {
		return err
	}
	return o.Open(o.Ctx, pos)
}

// Close ends the source.
func (o *Opened) Close() {
	if !o.torn {
		o.torn = true
		_ = o.Teardown(context.WithoutCancel(o.Ctx))
	}
}

// Next returns the next n records.
func (o *Opened) Next(n int) []record.Record {
	o.Helper()
	for len(o.ahead) < n {
		ctx, cancel := context.WithTimeout(o.Ctx, openedTimeout)
		more, err := o.Read(ctx)
		cancel()
		if err != nil {
			o.Fatalf("after %d of %d records: %v, the last ones being\n%s", len(o.ahead), n, err,
				strings.Join(Show(o.ahead[max(0, len(o.ahead)-20):]), "\n"))
		}
		o.ahead = append(o.ahead, more...)
	}
	got := o.ahead[:n:n]
	o.ahead = o.ahead[n:]
	return got
}

// Want reads one record per line, and checks that Show formats the records as these lines.
func (o *Opened) Want(lines ...string) []record.Record {
	o.Helper()
	got := o.Next(len(lines))
	for i, line := range Show(got) {
		if line != lines[i] {
			o.Errorf("record %d:\n got %s\nwant %s", i+1, line, lines[i])
		}
	}
	return got
}

// Fails returns the error that ends reading.
func (o *Opened) Fails() error {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Ctx, openedTimeout)
	defer cancel()
	for {
		if _, err := o.Read(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				o.Fatal("the source does not fail")
			}
			return err
		}
	}
}

// Settle acknowledges records.
func (o *Opened) Settle(records ...record.Record) {
	o.Helper()
	if err := o.Ack(o.Ctx, positions(records)); err != nil {
		o.Fatal(err)
	}
}

// Progress returns the progress report of the source.
func (o *Opened) Progress() progress.Report { return o.Source.(sdk.Reporter).Progress() }

// Show returns operation, collection, key and payload of each record.
func Show(records []record.Record) []string {
	var all []string
	for i := range records {
		r := &records[i]
		key, _ := r.Key.MarshalJSON()
		before, _ := r.Before.MarshalJSON()
		after, _ := r.After.MarshalJSON()
		line := fmt.Sprintf("%s %s %s", r.Operation, r.Metadata.Get(record.KeyCollection), key)
		if !r.Before.IsNone() {
			line += " from " + string(before)
		}
		if !r.After.IsNone() {
			line += " to " + string(after)
		}
		all = append(all, line)
	}
	return all
}

// Read reads n records from a source that is not an Opened.
func Read(t testing.TB, s sdk.Source, n int) (all []record.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openedTimeout)
	defer cancel()
	for len(all) < n {
		records, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("after %d of %d records: %v", len(all), n, err)
		}
		all = append(all, records...)
	}
	return all
}

// OpenDestination returns an open destination of c, with the sdk.* settings, and the context for its calls. It is torn
// down when the test ends.
func OpenDestination(
	t testing.TB, c sdk.Connector, id string, settings map[string]string,
) (sdk.Destination, context.Context) {
	t.Helper()
	ctx, d := Context(t, c, id), sdk.Standard(c).NewDestination()
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(ctx)) })
	if err := d.Configure(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(ctx); err != nil {
		t.Fatal(err)
	}
	return d, ctx
}

// Row returns a record of the table t at the position of number n. A nil key or payload is left out.
func Row(n int, op record.Operation, key, after map[string]any) record.Record {
	r := record.Record{Position: record.Position(fmt.Sprint(n)), Operation: op}
	r.Metadata.Set(record.KeyCollection, "t")
	r.Metadata.Set(record.KeySourceConnectorID, "p:source")
	if key != nil {
		r.Key = record.Structured(key)
	}
	if after != nil {
		r.After = record.Structured(after)
	}
	return r
}

// OpenSource configures s and opens it at the position, and returns it. It is torn down when
// the test ends.
func OpenSource[S sdk.Source](t testing.TB, s S, settings map[string]string, at record.Position) S {
	t.Helper()
	if err := s.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.WithoutCancel(t.Context())) })
	return s
}
