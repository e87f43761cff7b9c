package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func hangUntilDone(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestCallsPassThrough(t *testing.T) {
	f := &fakeSource{}
	s := startSource(t, f, nil)
	a, b := map[string]string{"k": "a"}, map[string]string{"k": "b"}
	for _, err := range []error{
		s.Configure(t.Context(), a),
		s.LifecycleOnCreated(t.Context(), a),
		s.LifecycleOnUpdated(t.Context(), a, b),
		s.Open(t.Context(), record.Position("7")),
		s.LifecycleOnDeleted(t.Context(), b),
		s.Teardown(t.Context()),
		s.Teardown(t.Context()),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{"Configure map[k:a]", "LifecycleOnCreated map[k:a]", "LifecycleOnUpdated map[k:a] map[k:b]",
		"Open 7", "LifecycleOnDeleted map[k:b]", "Teardown"}
	if !reflect.DeepEqual(f.history, want) {
		t.Errorf("got %q, want %q", f.history, want)
	}
}

func TestErrorsPassThrough(t *testing.T) {
	f := &fakeSource{}
	s := startSource(t, f, nil)
	wrong := errors.New("no such table")
	f.on = map[string]func(context.Context) error{
		"Configure map[k:d]": func(context.Context) error { return wrong },
		"Teardown":           func(context.Context) error { return wrong },
	}
	if err := s.Configure(t.Context(), nil); err != wrong {
		t.Errorf("Configure gave %v", err)
	}
	for range 2 {
		if err := s.Teardown(t.Context()); err != wrong {
			t.Errorf("Teardown gave %v", err)
		}
	}
}

// calls are the calls with a deadline, on a source.
var calls = map[string]func(context.Context, connector.Source) error{
	"Configure map[k:d]": func(ctx context.Context, s connector.Source) error { return s.Configure(ctx, nil) },
	"LifecycleOnCreated map[k:d]": func(ctx context.Context, s connector.Source) error {
		return s.LifecycleOnCreated(ctx, nil)
	},
	"LifecycleOnDeleted map[k:d]": func(ctx context.Context, s connector.Source) error {
		return s.LifecycleOnDeleted(ctx, nil)
	},
	"Open ":    func(ctx context.Context, s connector.Source) error { return s.Open(ctx, nil) },
	"Teardown": func(ctx context.Context, s connector.Source) error { return s.Teardown(ctx) },
	"LifecycleOnUpdated map[k:d] map[k:e]": func(ctx context.Context, s connector.Source) error {
		return s.LifecycleOnUpdated(ctx, nil, map[string]string{"k": "e"})
	},
}

func TestDeadlines(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeSource{}
				f.on = map[string]func(context.Context) error{name: hangUntilDone}
				s := startSource(t, f, nil)
				start := time.Now()
				err := call(t.Context(), s)
				const want = `connector "orders:db" (builtin:fake): no response within 1m0s: context deadline exceeded`
				if err == nil || err.Error() != want {
					t.Errorf("got error %v, want %s", err, want)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestHungCallIsGivenUp(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				f := &fakeSource{}
				f.on = map[string]func(context.Context) error{"Teardown": func(ctx context.Context) error {
					if ctx.Err() != nil {
						t.Error("the late Teardown got a context that has ended")
					}
					return nil
				}}
				f.on[name] = func(context.Context) error { <-release; return nil }
				var log bytes.Buffer
				s := startSource(t, f, slog.New(slog.NewTextHandler(&log, nil)))
				start := time.Now()
				err := call(t.Context(), s)
				if err == nil || !strings.Contains(err.Error(),
					`connector "orders:db" (builtin:fake): it was given up: `) {
					t.Errorf("got error %v", err)
				}
				if took := time.Since(start); took != 61*time.Second {
					t.Errorf("took %v", took)
				}
				if !strings.Contains(log.String(), "connector is broken") ||
					!strings.Contains(log.String(), "connector_id=orders:db") {
					t.Errorf("log says %s", log.String())
				}
				if _, err := s.Read(t.Context()); err == nil {
					t.Error("Read of a broken source gave no error")
				}
				if err := s.Teardown(t.Context()); err == nil {
					t.Error("Teardown of a hung source gave no error")
				}
				if name != "Teardown" && f.count("Teardown") != 0 {
					t.Error("Teardown was called while another call ran")
				}
				close(release)
				synctest.Wait()
				if n := f.count("Teardown"); n != 1 {
					t.Errorf("Teardown was called %d times", n)
				}
			})
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSource{}
		f.on = map[string]func(context.Context) error{"Configure map[k:d]": hangUntilDone}
		s := startSource(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Configure(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestTeardownIgnoresAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSource{}
		f.on = map[string]func(context.Context) error{"Teardown": func(ctx context.Context) error {
			time.Sleep(30 * time.Second)
			return ctx.Err()
		}}
		s := startSource(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Teardown(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestPanicIsContained(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			f := &fakeSource{}
			f.on = map[string]func(context.Context) error{name: func(context.Context) error { panic("oh no") }}
			var log bytes.Buffer
			s := startSource(t, f, slog.New(slog.NewTextHandler(&log, nil)))
			err := call(t.Context(), s)
			checkPanic(t, err, log.String())
			if err := s.Open(t.Context(), nil); err == nil {
				t.Error("a connector that panicked was called again")
			}
			_ = s.Teardown(t.Context())
			if n := f.count("Teardown"); n != 1 {
				t.Errorf("Teardown was called %d times", n)
			}
		})
	}
}

func checkPanic(t *testing.T, err error, log string) {
	t.Helper()
	p := (*sdk.PanicError)(nil)
	if !errors.As(err, &p) || p.Value != "oh no" || !bytes.Contains(p.Stack, []byte("_test.go")) {
		t.Fatalf("got error %#v", err)
	}
	if !strings.Contains(err.Error(), `connector "orders:db"`) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got error %v", err)
	}
	if !strings.Contains(log, "stack=") {
		t.Errorf("the log has no stack: %s", log)
	}
}

func TestEnv(t *testing.T) {
	var log bytes.Buffer
	f := &fakeSource{}
	f.on = map[string]func(context.Context) error{"Configure map[k:d]": func(ctx context.Context) error {
		sdk.Logger(ctx).Info("hello")
		return nil
	}}
	s := startSource(t, f, slog.New(slog.NewTextHandler(&log, nil)))
	if err := s.Configure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if want := "component=plugin connector_id=orders:db plugin_name=builtin:fake"; !strings.Contains(log.String(),
		want) {
		t.Errorf("log says %s, want %s", log.String(), want)
	}
}

// The state of a source is removed with the connector, and does not outlive it.
func TestStateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	h := newHost(sdk.Connector{Name: "fake", NewSource: func() sdk.Source { return &fakeSource{} }})
	h.StateDir = func(id string) string { return filepath.Join(dir, id) }
	s, err := h.Source(t.Context(), "fake", connectorID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Teardown(t.Context()) }()
	own := filepath.Join(dir, connectorID)
	for name, call := range map[string]func(context.Context, map[string]string) error{
		"created": s.LifecycleOnCreated, "deleted": s.LifecycleOnDeleted,
	} {
		if err := os.MkdirAll(filepath.Join(own, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := call(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the state is still there: %v", name, err)
		}
	}
}
