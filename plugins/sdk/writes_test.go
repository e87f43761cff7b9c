package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var errLost = errors.New("lost")

// server takes a second for each write, and handles several at the same time.
type server struct {
	begun   []string     // positions
	under   atomic.Int64 // writes in progress
	most    int64        // maximum of under
	settled []string
	at      []time.Duration
	start   time.Time
}

func records(positions ...string) (all []record.Record) {
	for _, p := range positions {
		all = append(all, record.Record{Position: record.Position(p)})
	}
	return all
}

// begin refuses "refused" at once and "late" when it is written, and breaks with "lost".
func (s *server) begin(_ context.Context, rs []record.Record) (n int, _ sdk.Result, err error) {
	if n = slices.IndexFunc(rs, func(r record.Record) bool { return string(r.Position) == "refused" }); n >= 0 {
		err = errors.New("refused")
	} else {
		n = len(rs)
	}
	rs = rs[:n]
	for _, r := range rs {
		s.begun = append(s.begun, string(r.Position))
	}
	s.most = max(s.most, s.under.Add(1))
	done := time.Now().Add(time.Second)
	return n, func(ctx context.Context) (int, error) {
		select {
		case <-time.After(time.Until(done)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		for i := range rs {
			switch string(rs[i].Position) {
			case "late":
				rs = rs[i+1:]
				if len(rs) == 0 {
					s.under.Add(-1)
				}
				return i, errors.New("late")
			case "lost":
				return i, errLost
			}
		}
		s.under.Add(-1)
		return len(rs), nil
	}, err
}

func (s *server) note(n int, err error) {
	s.settled, s.at = append(s.settled, fmt.Sprint(n, err)), append(s.at, time.Since(s.start))
}

func open(t *testing.T, s *server) *sdk.Overlap {
	t.Helper()
	s.start = time.Now()
	o := &sdk.Overlap{Begin: s.begin, Breaks: func(err error) bool { return errors.Is(err, errLost) }}
	o.Open(t.Context())
	t.Cleanup(o.Close)
	return o
}

// TestOverlap checks that the records of overlapping writes are settled in order. A record refused at once is settled
// after all earlier ones, and before the next write begins.
func TestOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		o := open(t, s)
		for _, rs := range [][]record.Record{records("1", "2"), records("3", "late", "4"), records("5", "refused", "6"),
			records("late")} {
			if err := o.Put(t.Context(), rs, s.note); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"1", "2", "3", "late", "4", "5", "6", "late"}; !slices.Equal(s.begun, want) {
			t.Errorf("begun: %q, want %q", s.begun, want)
		}
		want := []string{"2 <nil>", "1 <nil>", "1 late", "1 <nil>", "1 <nil>", "1 refused", "1 <nil>", "1 late"}
		if !slices.Equal(s.settled, want) {
			t.Errorf("settled: %q, want %q", s.settled, want)
		}
		if s.at[4] != time.Second || s.at[len(s.at)-1] != 2*time.Second {
			t.Errorf("settled after %v, want three writes after one second, and two after another", s.at)
		}
		for range 100 {
			if err := o.Put(t.Context(), records("x"), s.note); err != nil {
				t.Fatal(err)
			}
		}
		if s.most < 16 || s.most > 18 {
			t.Errorf("%d writes were under way at the same time, want some 16 to 18", s.most)
		}
	})
}

// TestOverlapBreaks checks that nothing is settled after a failed write, and that all callers receive the reason.
func TestOverlapBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		o := open(t, s)
		for _, p := range []string{"1", "lost", "2"} {
			if err := o.Put(t.Context(), records(p), s.note); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Flush(t.Context()); !errors.Is(err, errLost) {
			t.Errorf("flushed: %v, want %v", err, errLost)
		}
		if err := o.Put(t.Context(), records("3"), s.note); !errors.Is(err, errLost) {
			t.Errorf("put: %v, want %v", err, errLost)
		}
		synctest.Wait()
		if want := []string{"1 <nil>", "0 lost"}; !slices.Equal(s.settled, want) {
			t.Errorf("settled: %q, want %q", s.settled, want)
		}
	})
}

// TestOverlapLies checks that o breaks when a connector returns an impossible number of written records.
func TestOverlapLies(t *testing.T) {
	for _, c := range []struct {
		begun  int
		result int
	}{{3, 0}, {1, 0}, {-1, 0}, {2, 3}, {2, 1}, {2, -1}} {
		o := &sdk.Overlap{Breaks: func(error) bool { return false }}
		o.Begin = func(context.Context, []record.Record) (int, sdk.Result, error) {
			return c.begun, func(context.Context) (int, error) { return c.result, nil }, nil
		}
		o.Open(t.Context())
		settled := 0
		err := o.Put(t.Context(), records("1", "2"), func(n int, _ error) { settled += n })
		flushed := o.Flush(t.Context())
		if o.Close(); err == nil && flushed == nil || settled != 0 {
			t.Errorf("%+v: errors %v and %v, and %d records settled", c, err, flushed, settled)
		}
	}
}

// TestOverlapEnds checks that calls end with their context, and with Close, even with writes in progress.
func TestOverlapEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, call := range map[string]func(*sdk.Overlap, context.Context, *server) error{
			"put": func(o *sdk.Overlap, ctx context.Context, s *server) (err error) {
				for err == nil {
					err = o.Put(ctx, records("x"), s.note)
				}
				return err
			},
			"flush": func(o *sdk.Overlap, ctx context.Context, s *server) error {
				return errors.Join(o.Put(ctx, records("x"), s.note), o.Flush(ctx))
			},
		} {
			s := &server{}
			o := open(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			if err := call(o, ctx, s); !errors.Is(err, context.Canceled) || time.Since(s.start) != time.Second/2 {
				t.Errorf("%s: %v after %v", name, err, time.Since(s.start))
			}
			cancel()
			if o.Close(); len(s.settled) > 0 {
				t.Errorf("%s: settled %q", name, s.settled)
			}
		}
		s := &server{}
		o := open(t, s)
		if err := o.Put(t.Context(), records("x"), s.note); err != nil {
			t.Fatal(err)
		}
		if o.Close(); len(s.settled) > 0 || time.Since(s.start) != 0 {
			t.Errorf("closed: settled %q after %v", s.settled, time.Since(s.start))
		}
	})
}
