package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Timeouts bounds the calls to a connector that are answered once. Zero means a minute.
type Timeouts struct {
	Configure time.Duration
	Open      time.Duration
	Lifecycle time.Duration // each of the lifecycle calls
	Teardown  time.Duration
}

const (
	defaultTimeout = time.Minute
	// grace is how long a connector may take to notice that its context ended.
	grace = time.Second
)

// calls are the calls that sdk.Source and sdk.Destination have in common.
type calls interface {
	Configure(ctx context.Context, settings map[string]string) error
	Teardown(ctx context.Context) error
	sdk.Lifecycle
}

// instance is the part of an in-process connector that sources and destinations share:
// the calls that are answered once. They run on a goroutine of their own, so that a
// connector which never answers can be given up.
type instance struct {
	id       string
	log      *slog.Logger
	env      *sdk.Env
	timeouts Timeouts
	calls    calls

	main serializer // every call except Ack
	acks serializer

	broken   atomic.Pointer[error] // why no more calls are made
	once     sync.Once             // Teardown
	teardown error                 // what Teardown returned
}

func (in *instance) init(b *builtins, plugin pluginname.Name, connectorID string) {
	name := string(plugin.Kind) + ":" + plugin.Name
	in.id = connector.DeclaredID(connectorID)
	in.log = b.log.With("component", "plugin", "connector_id", in.id, "plugin_name", name)
	in.env = &sdk.Env{ConnectorID: connectorID, PluginName: name, Logger: in.log, Schemas: b.schemas,
		AllowPath: b.allowPath, Budget: b.budget}
	if b.syncs != nil {
		in.env.Defer = func(m sdk.Syncer) { b.syncs.Defer(in.id, m) }
	}
	if b.buffer != nil {
		in.env.Buffer = func() sdk.Buffer { return b.buffer(plugin.Name) }
	}
	in.timeouts = b.timeouts
	in.main, in.acks = newSerializer(), newSerializer()
}

// LogThrough has the connector, and what is said about it, logged through a handler that
// wrap makes of the one there is. It is called before anything else.
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
		return in.calls.LifecycleOnDeleted(ctx, settings)
	})
}

// Teardown ends all running calls, waits for them and calls the connector's Teardown.
// A context that has ended already does not keep it from doing so. When a running call
// does not return in time, the connector's Teardown follows if ever it does.
func (in *instance) Teardown(ctx context.Context) error {
	in.once.Do(func() {
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
	if ctx.Err() != nil { // it was given up while it waited
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(in.timeouts.Teardown, defaultTimeout))
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
		if ctx.Err() != nil { // it waited for another call for too long
			return ctx.Err()
		}
		return fn(ctx)
	})
}

var errGoroutineEnded = errors.New("the connector ended the goroutine of the call")

// bounded calls fn on a goroutine of its own, when no other call runs, and waits for it no
// longer than timeout and a grace. After that the goroutine is on its own.
func (in *instance) bounded(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	timeout = cmp.Or(timeout, defaultTimeout)
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
		err = in.fault("no answer within %v: %w", timeout, context.DeadlineExceeded)
	}
	if !answered {
		return in.fail(in.fault("it was given up: %w", err))
	}
	return in.contained(err)
}

// await returns what comes through done, or after ctx ended and a grace, that nothing came.
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

// enter waits until no other call of s runs, or returns why no calls are made any more: a
// call that was given up still runs, and is not waited for.
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

// usable returns why the connector must not be called, nil if it may.
func (in *instance) usable() error {
	if err := in.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// fail makes err the end of the connector: no more calls are made except Teardown.
func (in *instance) fail(err error) error {
	in.broken.CompareAndSwap(nil, &err)
	args := []any{"err", err}
	if p := (*sdk.PanicError)(nil); errors.As(err, &p) {
		args = append(args, "stack", string(p.Stack))
	}
	in.log.Error("connector is broken", args...)
	return err
}

// contained makes a panic the end of the connector and returns all other errors as they are.
func (in *instance) contained(err error) error {
	if isPanic(err) {
		return in.fail(in.fault("%w", err))
	}
	return err
}

// fault returns an error that the host found, rather than the connector.
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
