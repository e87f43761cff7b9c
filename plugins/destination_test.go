package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var errRefused = errors.New("not wanted")

// outcome collects the settled results of a destination: "2" for two durable records, "1!" for a refused one.
type outcome []string

func (o *outcome) settled(n int, err error) {
	text := fmt.Sprint(n)
	if err != nil {
		text += "!"
	}
	*o = append(*o, text)
}

func positions(records []record.Record) string {
	var s strings.Builder
	for _, r := range records {
		s.Write(r.Position)
	}
	return s.String()
}

func TestWrite(t *testing.T) {
	for name, c := range map[string]struct {
		refused string // positions that the connector refuses
		n       int
		writes  []string
		settled outcome
	}{
		"all":                {"", 5, []string{"01234"}, outcome{"5"}},
		"one":                {"", 1, []string{"0"}, outcome{"1"}},
		"nothing":            {"", 0, nil, nil},
		"refused in between": {"2", 5, []string{"01234", "34"}, outcome{"2", "1!", "2"}},
		"refused first":      {"0", 3, []string{"012", "12"}, outcome{"1!", "2"}},
		"refused last":       {"2", 3, []string{"012"}, outcome{"2", "1!"}},
		"all refused":        {"012", 3, []string{"012", "12", "2"}, outcome{"1!", "1!", "1!"}},
		"some refused":       {"13", 5, []string{"01234", "234", "4"}, outcome{"1", "1!", "1", "1!", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var writes []string
			var got outcome
			f := &fakeDestination{write: func(_ context.Context, records []record.Record) (int, error) {
				writes = append(writes, positions(records))
				for i, r := range records {
					if strings.Contains(c.refused, string(r.Position)) {
						return i, errRefused
					}
				}
				return len(records), nil
			}}
			d := startDestination(t, f, f, got.settled)
			if err := d.Write(t.Context(), record.NewBatch(records(0, c.n))); err != nil {
				t.Fatal(err)
			}
			if err := d.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(writes, c.writes) || !reflect.DeepEqual(got, c.settled) {
				t.Errorf("wrote %v, settled %v, want %v, %v", writes, got, c.writes, c.settled)
			}
		})
	}
}

func TestResultsWithoutMeaning(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		err  error
		want string
	}{
		"negative": {-1, errRefused,
			"cannot write: the connector reported -1 of 3 records as written, with error not wanted"},
		"too many": {4, nil,
			"cannot write: the connector reported 4 of 3 records as written, with error <nil>"},
		"too few, no error": {2, nil,
			"cannot write: the connector reported 2 of 3 records as written, with error <nil>"},
		"all, and an error": {3, errRefused,
			"cannot write: the connector reported 3 of 3 records as written, with error not wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			var got outcome
			f := &fakeDestination{write: func(context.Context, []record.Record) (int, error) { return c.n, c.err }}
			d := startDestination(t, f, f, got.settled)
			err := d.Write(t.Context(), record.NewBatch(records(0, 3)))
			if want := `connector "orders:db" (builtin:fake): ` + c.want; err == nil || err.Error() != want {
				t.Errorf("got error %v, want %s", err, want)
			}
			if got != nil {
				t.Errorf("settled %v", got)
			}
			if err := d.Write(t.Context(), record.NewBatch(records(0, 3))); err == nil || f.count("Write") != 1 {
				t.Error("a broken destination was written to")
			}
			if err := d.Flush(t.Context()); err == nil {
				t.Error("a broken destination was flushed")
			}
		})
	}
}

func TestWriteEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		want outcome
	}{
		"before any": {0, nil}, "in between": {2, outcome{"2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got outcome
				f := &fakeDestination{write: func(ctx context.Context, _ []record.Record) (int, error) {
					<-ctx.Done()
					return c.n, errors.New("interrupted")
				}}
				d := startDestination(t, f, f, got.settled)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := d.Write(ctx, record.NewBatch(records(0, 3))); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got error %v", err)
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("settled %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestWriteWithAContextThatHasEnded(t *testing.T) {
	f := &fakeDestination{}
	d := startDestination(t, f, f, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Write(ctx, record.NewBatch(records(0, 1))); !errors.Is(err, context.Canceled) || f.count("Write") != 0 {
		t.Errorf("got error %v after %d writes", err, f.count("Write"))
	}
}

func TestPanicInWrite(t *testing.T) {
	var got outcome
	f := &fakeDestination{write: func(context.Context, []record.Record) (int, error) { panic("oh no") }}
	d := startDestination(t, f, f, got.settled)
	err := d.Write(t.Context(), record.NewBatch(records(0, 3)))
	if p := (*sdk.PanicError)(nil); !errors.As(err, &p) || got != nil {
		t.Errorf("got error %v, settled %v", err, got)
	}
	if err := d.Teardown(t.Context()); err != nil || f.count("Teardown") != 1 {
		t.Errorf("Teardown gave %v", err)
	}
}

func TestBatchingDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []string
		var got outcome
		f := &fakeDestination{write: func(_ context.Context, records []record.Record) (int, error) {
			writes = append(writes, positions(records))
			if records[0].Position[0] == '4' {
				return 0, errRefused
			}
			return len(records), nil
		}}
		f.settings = map[string]string{"sdk.batch.size": "4"}
		d := startDestination(t, f, f, got.settled)
		for first := range 2 {
			if err := d.Write(t.Context(), record.NewBatch(records(3*first, 3))); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"0123"}; !reflect.DeepEqual(writes, want) || len(got) != 1 {
			t.Errorf("before Flush wrote %v, settled %v, want %v", writes, got, want)
		}
		if err := d.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"0123", "45", "5"}; !reflect.DeepEqual(writes, want) {
			t.Errorf("wrote %v, want %v", writes, want)
		}
		if want := (outcome{"4", "1!", "1"}); !reflect.DeepEqual(got, want) {
			t.Errorf("settled %v, want %v", got, want)
		}
	})
}

func TestUnavailableDestination(t *testing.T) {
	for name, settings := range map[string]map[string]string{"at once": nil, "late": {"sdk.batch.delay": "1s"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				errFull := errors.New("disk full")
				f := &fakeDestination{write: func(context.Context, []record.Record) (int, error) {
					return 1, sdk.Unavailable(errFull)
				}}
				f.settings = settings
				var got outcome
				var broken error
				d := startDestination(t, f, f, func(n int, err error) {
					if n == 0 {
						broken = err
						return
					}
					got.settled(n, err)
				})
				err := d.Write(t.Context(), record.NewBatch(records(0, 3)))
				if settings != nil {
					time.Sleep(2 * time.Second)
					synctest.Wait()
					err = broken
				}
				var lost interface{ Lost() bool }
				if want := `connector "orders:db" (builtin:fake): disk full`; !errors.As(err, &lost) ||
					err.Error() != want {
					t.Errorf("got error %v, want %s", err, want)
				}
				if !reflect.DeepEqual(got, outcome{"1"}) {
					t.Errorf("settled %v", got)
				}
				if err := d.Flush(t.Context()); err == nil || f.count("Write") != 1 {
					t.Error("a broken destination was flushed")
				}
			})
		})
	}
}

func TestBatchingDestinationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeDestination{write: func(ctx context.Context, _ []record.Record) (int, error) {
			<-ctx.Done()
			return 0, errors.New("interrupted")
		}}
		f.settings = map[string]string{"sdk.batch.size": "2"}
		var got outcome
		d := startDestination(t, f, f, got.settled)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Write(ctx, record.NewBatch(records(0, 2))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		if got != nil {
			t.Errorf("settled %v", got)
		}
	})
}

// A destination that replays dead letters knows it.
func TestForReplay(t *testing.T) {
	for _, replays := range []bool{false, true} {
		f := &fakeDestination{}
		f.t = t
		var env *sdk.Env
		f.write = func(ctx context.Context, records []record.Record) (int, error) {
			env = sdk.EnvFrom(ctx)
			return len(records), nil
		}
		d, err := newHost(sdk.Connector{NewDestination: func() sdk.Destination { return f }}).Destination(t.Context(),
			"fake", connectorID)
		if err != nil {
			t.Fatal(err)
		}
		if replays {
			d.(interface{ ForReplay() }).ForReplay()
		}
		var got outcome
		if err := errors.Join(d.Configure(t.Context(), nil), d.Open(t.Context(), got.settled),
			d.Write(t.Context(), record.NewBatch(records(0, 1))), d.Teardown(t.Context())); err != nil {
			t.Fatal(err)
		}
		if env.Replay != replays || env.ConnectorID != connectorID {
			t.Errorf("the environment is %+v", env)
		}
	}
}

// A destination that is acknowledged apart from its pipeline is synced under its own name.
func TestSyncAs(t *testing.T) {
	g := &plugins.SyncGroup{}
	synced := func(name string) (found bool) {
		m := &member{}
		f := &fakeDestination{}
		f.t = t
		f.write = func(ctx context.Context, records []record.Record) (int, error) {
			sdk.EnvFrom(ctx).Defer(m)
			return len(records), nil
		}
		h := newHost(sdk.Connector{NewDestination: func() sdk.Destination { return f }})
		h.Syncs = g
		d, err := h.Destination(t.Context(), "fake", connectorID)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Teardown(context.Background()) })
		d.(interface{ SyncAs(string) }).SyncAs("orders:db/isolated")
		var got outcome
		if err := errors.Join(d.Configure(t.Context(), nil), d.Open(t.Context(), got.settled),
			d.Write(t.Context(), record.NewBatch(records(0, 1)))); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		g.Sync([]string{name}, func([]string, error) { close(done) })
		<-done
		return m.synced > 0
	}
	if synced("orders") {
		t.Error("it was synced for its pipeline")
	}
	if !synced("orders:db/isolated") {
		t.Error("it was not synced under its name")
	}
}
