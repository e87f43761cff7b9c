package plugins

import (
	"context"
	"sync"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// serializer runs the calls of a connector one at a time, each on the goroutine of its caller. Consecutive calls with
// the same context share the context for the connector, so that it is created only once.
type serializer struct {
	running chan struct{} // capacity 1: holds a token while a call runs

	parent <-chan struct{} // owned by the running call: Done of the parent of ctx
	ctx    context.Context // owned by the running call

	mu     sync.Mutex         // guards cancel and ended
	cancel context.CancelFunc // ends ctx
	ended  bool
}

func newSerializer() serializer { return serializer{running: make(chan struct{}, 1)} }

// acquire waits until no other call runs. release must follow.
func (s *serializer) acquire() { s.running <- struct{}{} }

func (s *serializer) release() { <-s.running }

// context returns the context for the running call: ctx with env, which ends with ctx or with the serializer. It is
// valid until the next call.
func (s *serializer) context(ctx context.Context, env *sdk.Env) context.Context {
	if s.ctx != nil && s.parent == ctx.Done() {
		return s.ctx
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	s.parent = ctx.Done()
	s.ctx, s.cancel = context.WithCancel(sdk.WithEnv(ctx, env))
	if s.ended {
		s.cancel()
	}
	return s.ctx
}

// end ends the context of the running call and of all later calls.
func (s *serializer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.cancel != nil {
		s.cancel()
	}
}
