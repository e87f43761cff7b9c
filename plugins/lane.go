package plugins

import (
	"context"
	"sync"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// lane is a series of calls on a connector, made one at a time on the goroutine of the
// caller. Calls that come with the same context share the one the connector sees, which
// is then made once.
type lane struct {
	turn sync.Mutex // held during a call

	mu     sync.Mutex // guards what follows
	parent <-chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	ended  bool
}

// context returns the context for a call: ctx with env, which ends with ctx or when the
// lane ends. It is for use by the holder of the turn, until its next call.
func (l *lane) context(ctx context.Context, env *sdk.Env) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil && l.parent == ctx.Done() {
		return l.ctx
	}
	if l.cancel != nil {
		l.cancel()
	}
	l.parent = ctx.Done()
	l.ctx, l.cancel = context.WithCancel(sdk.WithEnv(ctx, env))
	if l.ended {
		l.cancel()
	}
	return l.ctx
}

// end ends the context of the running call and of all calls to come.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.cancel != nil {
		l.cancel()
	}
}
