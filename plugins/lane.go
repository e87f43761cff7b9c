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
	turn chan struct{} // holds one token while a call runs

	parent <-chan struct{} // owned by the holder of the turn: what ctx was made of
	ctx    context.Context // owned by the holder of the turn

	mu     sync.Mutex         // guards what follows
	cancel context.CancelFunc // ends ctx
	ended  bool
}

func newLane() lane { return lane{turn: make(chan struct{}, 1)} }

// enter waits until no other call runs. The caller leaves when its call has ended.
func (l *lane) enter() { l.turn <- struct{}{} }

func (l *lane) leave() { <-l.turn }

// context returns the context for a call: ctx with env, which ends with ctx or when the
// lane ends. It is for use by the holder of the turn, until its next call.
func (l *lane) context(ctx context.Context, env *sdk.Env) context.Context {
	if l.ctx != nil && l.parent == ctx.Done() {
		return l.ctx
	}
	l.mu.Lock()
	defer l.mu.Unlock()
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
