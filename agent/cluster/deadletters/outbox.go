package deadletters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
)

const (
	maxPending   = 8 << 20         // bytes that may be pending; Keep blocks beyond that
	writeTimeout = 5 * time.Second // for a write that no commit waits for
)

// outbox holds the dead letters of this agent that are not written yet.
type outbox struct {
	queues  *queues
	bounds  *bounds
	owner   func(pipeline string) (claim string, epoch uint64, ok bool)
	memory  deadletter.Memory // nil: not counted
	written *atomic.Uint64

	mu      sync.Mutex
	byClaim map[string]*pending // the map, and all fields of pending except flushing, are guarded by mu
	bytes   int                 // guarded by mu: total of all pending records
}

// pending holds the dead letters that are not yet in the queue of a claim.
type pending struct {
	flushing sync.Mutex // one write at a time
	all      []*deadletter.DeadLetter
	epoch    uint64
}

// get returns the pending dead letters of a claim.
func (o *outbox) get(claim string) *pending {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at(claim)
}

// at returns the pending dead letters of a claim. mu must be held.
func (o *outbox) at(claim string) *pending {
	p := o.byClaim[claim]
	if p == nil {
		p = &pending{}
		o.byClaim[claim] = p
	}
	return p
}

// put adds a dead letter, and reports whether there is memory for more.
func (o *outbox) put(claim string, epoch uint64, l *deadletter.DeadLetter) (more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, n := o.at(claim), len(l.Record)
	if p.epoch != epoch { // refused under a claim that this agent lost: the next owner reads them again
		o.forget(p, len(p.all))
	}
	p.epoch, p.all = epoch, append(p.all, l)
	o.bytes += n
	if o.memory == nil || o.memory.Take(n) {
		return o.bytes <= maxPending
	}
	o.memory.Add(n)
	return false
}

// forget removes the first n pending dead letters. mu must be held.
func (o *outbox) forget(p *pending, n int) {
	for _, l := range p.all[:n] {
		size := len(l.Record)
		o.bytes -= size
		if o.memory != nil {
			o.memory.Add(-size)
		}
	}
	p.all = slices.Clone(p.all[n:])
}

// flush writes the pending dead letters of a claim. It retries as long as this agent owns the claim.
func (o *outbox) flush(ctx context.Context, claim string) error {
	p := o.get(claim)
	p.flushing.Lock()
	defer p.flushing.Unlock()
	pipeline, _ := protocol.InstanceOf(claim)
	_, now, _ := o.owner(pipeline)
	o.mu.Lock()
	if p.epoch != now {
		o.forget(p, len(p.all))
	}
	all, epoch := p.all, p.epoch
	o.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	err := o.queues.add(ctx, claim, epoch, copied(all), func() bool {
		now, at, ok := o.owner(pipeline)
		return ok && now == claim && at == epoch
	})
	o.mu.Lock()
	if lost := errors.Is(err, cluster.ErrNotOwner); (err == nil || lost) && p.epoch == epoch {
		o.forget(p, len(all))
	}
	o.mu.Unlock()
	if err != nil {
		return fmt.Errorf("cannot keep dead letters of pipeline %q in the store of the cluster: %w", pipeline, err)
	}
	o.written.Add(uint64(len(all)))
	o.bounds.enforce(ctx)
	return nil
}

// copied returns copies of dead letters whose refusals can be extended without changing the originals, which may be
// written again.
func copied(all []*deadletter.DeadLetter) []*deadletter.DeadLetter {
	copies := make([]*deadletter.DeadLetter, len(all))
	for i, l := range all {
		one := *l
		one.Refusals = slices.Clip(one.Refusals)
		copies[i] = &one
	}
	return copies
}

// waits returns the claim of a pipeline if it has pending dead letters, else "".
func (o *outbox) waits(pipeline string) string {
	claim, _, owned := o.owner(pipeline)
	if !owned {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.byClaim[claim]; p == nil || len(p.all) == 0 {
		return ""
	}
	return claim
}

// flushAll writes all pending dead letters.
func (o *outbox) flushAll(ctx context.Context) (err error) {
	o.mu.Lock()
	var claims []string
	for claim, p := range o.byClaim {
		if len(p.all) > 0 {
			claims = append(claims, claim)
		}
	}
	o.mu.Unlock()
	for _, claim := range claims {
		try, cancel := context.WithTimeout(ctx, writeTimeout)
		failed := o.flush(try, claim)
		cancel()
		if failed != nil && !errors.Is(failed, cluster.ErrNotOwner) {
			err = failed
		}
	}
	return err
}
