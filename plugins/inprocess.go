package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// calls are the methods common to sdk.Source and sdk.Destination.
type calls interface {
	Configure(ctx context.Context, settings map[string]string) error
	Teardown(ctx context.Context) error
	sdk.Lifecycle
}

// instance is the common part of in-process sources and destinations: the unary calls. They run on separate goroutines,
// so that a connector that never answers can be abandoned.
type instance struct {
	id       string
	log      *slog.Logger
	env      *sdk.Env
	syncs    *SyncGroup // nil if the host syncs nothing for its connectors
	timeouts BuiltinTimeouts
	calls    calls
	end      func() // ends its registration as running

	main serializer // every call except Ack
	acks serializer

	broken   atomic.Pointer[error] // why no more calls are made
	once     sync.Once             // Teardown
	teardown error                 // result of Teardown
}

func (in *instance) init(b *builtins, plugin pluginname.Name, connectorID string) {
	name := string(plugin.Kind) + ":" + plugin.Name
	in.id = connector.DeclaredID(connectorID)
	in.log = b.log.With("component", "plugin", "connector_id", in.id, "plugin_name", name)
	in.env = &sdk.Env{ConnectorID: connectorID, PluginName: name, Logger: in.log, Schemas: b.schemas,
		AllowPath: b.allowPath, Budget: b.budget}
	if b.syncs != nil {
		in.syncs = b.syncs
		in.env.Defer = func(m sdk.Syncer) { b.syncs.Defer(in.id, m) }
	}
	if b.buffer != nil {
		in.env.Buffer = func() sdk.Buffer { return b.buffer(plugin.Name) }
	}
	in.timeouts = b.timeouts
	in.main, in.acks = newSerializer(), newSerializer()
}

// begin registers the connector, which is declared as use, as running until Teardown.
func (in *instance) begin(b *builtins, use Use) {
	use.ConnectorID = in.id
	in.end = b.running.begin(use)
}

// SyncAs syncs the writes of the connector under this name instead of the id of the pipeline: a connector whose records
// are acknowledged apart from those of the pipeline must not delay the pipeline's checkpoints. It must be called before
// Open.
func (in *instance) SyncAs(name string) {
	if in.syncs != nil {
		in.env.Defer = func(m sdk.Syncer) { in.syncs.Defer(name+":", m) }
	}
}

// ForReplay makes the connector one that replays dead letters; see sdk.Env. It must be called before all other methods.
func (in *instance) ForReplay() { in.env.Replay = true }

// LogThrough wraps the log handler for the connector, and for messages about it, with wrap. It must be called before
// all other methods.
func (in *instance) LogThrough(wrap func(slog.Handler) slog.Handler, _ func(string) string) {
	in.log = slog.New(wrap(in.log.Handler()))
	in.env.Logger = in.log
}

// Configure implements connector.Connector.
func (in *instance) Configure(ctx context.Context, settings map[string]string) error {
	return in.call(ctx, in.timeouts.Configure, func(ctx context.Context) error {
		return in.calls.Configure(ctx, settings)
	})
}

// LifecycleOnCreated implements connector.Connector.
func (in *instance) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return in.call(ctx, in.timeouts.Lifecycle, func(ctx context.Context) error {
		if err := in.forgetState(); err != nil { // of a former connector with this id
			return err
		}
		return in.calls.LifecycleOnCreated(ctx, settings)
	})
}

// LifecycleOnUpdated implements connector.Connector.
func (in *instance) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	return in.call(ctx, in.timeouts.Lifecycle, func(ctx context.Context) error {
		return in.calls.LifecycleOnUpdated(ctx, before, after)
	})
}

// LifecycleOnDeleted implements connector.Connector.
func (in *instance) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return in.call(ctx, in.timeouts.Lifecycle, func(ctx context.Context) error {
		if err := in.calls.LifecycleOnDeleted(ctx, settings); err != nil {
			return err
		}
		return in.forgetState()
	})
}

// forgetState removes the durable data of the connector.
func (in *instance) forgetState() error {
	if in.env.StateDir == "" {
		return nil
	}
	if err := os.RemoveAll(in.env.StateDir); err != nil {
		return fmt.Errorf("cannot remove the state of the connector: %w", err)
	}
	return nil
}

// Teardown ends all running calls, waits for them and calls the connector's Teardown, even if ctx has already ended. If
// a running call does not return in time, the connector's Teardown is called when that call returns.
func (in *instance) Teardown(ctx context.Context) error {
	in.once.Do(func() {
		defer in.end()
		ended := in.fault("it is torn down") // set before the calls end, which return it
		in.broken.CompareAndSwap(nil, &ended)
		in.main.end()
		in.acks.end()
		if ctx.Err() != nil {
			ctx = context.WithoutCancel(ctx)
		}
		in.teardown = in.bounded(ctx, in.timeouts.Teardown, in.tearDown)
	})
	return in.teardown
}

func (in *instance) tearDown(ctx context.Context) error {
	in.acks.acquire()
	defer in.acks.release()
	if ctx.Err() != nil { // it was abandoned while it waited
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(in.timeouts.Teardown, defaultBuiltinTimeout))
		defer cancel()
	}
	return in.calls.Teardown(ctx)
}

// call makes a call unless the connector is broken.
func (in *instance) call(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	if err := in.usable(); err != nil {
		return err
	}
	return in.bounded(ctx, timeout, func(ctx context.Context) error {
		if ctx.Err() != nil { // waiting for another call took too long
			return ctx.Err()
		}
		return fn(ctx)
	})
}

var errGoroutineEnded = errors.New("the connector ended the goroutine of the call")

// bounded calls fn on a separate goroutine when no other call runs. It waits at most for timeout and a grace period,
// and then abandons the goroutine.
func (in *instance) bounded(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	timeout = cmp.Or(timeout, defaultBuiltinTimeout)
	inner, cancel := context.WithTimeout(sdk.WithEnv(ctx, in.env), timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		in.main.acquire()
		defer in.main.release()
		err := errGoroutineEnded
		defer func() { done <- err }()
		err = sdk.Contain(func() error { return fn(inner) })
	}()
	answered, err := await(inner, done)
	if inner.Err() != nil && ctx.Err() == nil && (!answered || isContext(err)) {
		err = in.fault("no response within %v: %w", timeout, context.DeadlineExceeded)
	}
	if !answered {
		return in.fail(in.fault("it was given up: %w", err))
	}
	return in.contained(err)
}

// await returns the result from done. It returns answered false if none comes before the end of ctx and a grace period.
func await(ctx context.Context, done <-chan error) (answered bool, err error) {
	select {
	case err = <-done:
		return true, err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err = <-done:
		return true, err
	case <-timer.C:
		return false, ctx.Err()
	}
}

// enter waits until no other call of s runs, or returns the reason why no calls are made. It does not wait for an
// abandoned call that still runs.
func (in *instance) enter(s *serializer) error {
	if err := in.usable(); err != nil {
		return err
	}
	s.acquire()
	if err := in.usable(); err != nil {
		s.release()
		return err
	}
	return nil
}

// usable returns the reason why the connector must not be called, nil if it may.
func (in *instance) usable() error {
	if err := in.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// fail breaks the connector with err: no more calls are made except Teardown.
func (in *instance) fail(err error) error {
	in.broken.CompareAndSwap(nil, &err)
	args := []any{"err", err}
	if p := (*sdk.PanicError)(nil); errors.As(err, &p) {
		args = append(args, "stack", string(p.Stack))
	}
	in.log.Error("connector is broken", args...)
	return err
}

// contained breaks the connector if err is a panic, and returns all other errors unchanged.
func (in *instance) contained(err error) error {
	if isPanic(err) {
		return in.fail(in.fault("%w", err))
	}
	return err
}

// fault returns an error that the host, not the connector, has found.
func (in *instance) fault(format string, args ...any) error {
	return fmt.Errorf("connector %q (%s): "+format, append([]any{in.id, in.env.PluginName}, args...)...)
}

func isPanic(err error) bool {
	p := (*sdk.PanicError)(nil)
	return errors.As(err, &p)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
