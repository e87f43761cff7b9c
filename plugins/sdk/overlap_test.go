package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// overlapping is a sink that begins writes before earlier ones are done.
type overlapping struct {
	sink
	refusesNow bool
	inResult   bool // it panics in the result, not in Begin
}

func (o *overlapping) Overlaps() bool { return true }

func (o *overlapping) Begin(ctx context.Context, rs []record.Record) (int, sdk.WriteResult, error) {
	if o.panics && !o.inResult {
		panic("boom")
	}
	n, err := len(rs), error(nil)
	if o.refusesNow && n > 1 {
		n, err = 1, errors.New("refused")
	}
	return n, func(context.Context) (int, error) {
		if o.panics {
			panic("boom")
		}
		return o.Write(ctx, rs[:n])
	}, err
}

func TestDestinationOverlaps(t *testing.T) {
	for _, c := range []struct {
		name     string
		sink     *overlapping
		settings map[string]string
		settled  string
		panics   bool
	}{
		{"all", &overlapping{}, nil, "[3 <nil>]", false},
		{"a record refused at once", &overlapping{refusesNow: true}, nil, "[1 <nil> 1 refused 1 <nil>]", false},
		{"a batch", &overlapping{refusesNow: true}, map[string]string{"sdk.batch.size": "3"}, "[3 <nil>]", false},
		{"a rate", &overlapping{refusesNow: true}, map[string]string{"sdk.rate.perSecond": "1000"}, "[3 <nil>]", false},
		{"a panic", &overlapping{sink: sink{panics: true}}, nil, "[]", true},
		{"a panic in the result", &overlapping{sink: sink{panics: true}, inResult: true}, nil, "[0 panic: boom]", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := sdk.Standard(sdk.Connector{NewDestination: func() sdk.Destination {
				return c.sink
			}}).NewDestination().(sdk.AsyncDestination)
			if err := errors.Join(d.Configure(t.Context(), c.settings), d.Open(t.Context())); err != nil {
				t.Fatal(err)
			}
			settled := []any{}
			err := d.WriteAsync(t.Context(), numbered(1, 4), func(n int, err error) {
				settled = append(settled, n, err)
			})
			if err != nil && c.sink.inResult { // the result came before the call returned
				c.settled = "[]"
			}
			err = errors.Join(err, d.Flush(t.Context()), d.Teardown(t.Context()))
			if errors.As(err, new(*sdk.PanicError)) != c.panics || (err != nil) != c.panics {
				t.Errorf("got error %v", err)
			}
			if got := fmt.Sprint(settled); got != c.settled {
				t.Errorf("settled %s, want %s", got, c.settled)
			}
		})
	}
}
