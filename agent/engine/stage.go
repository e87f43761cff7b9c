package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// stage is a place for a chain of processors in a run: behind a source, behind the fan-in
// of all sources, or before a destination. While it has none it costs one atomic load per
// batch.
type stage struct {
	id   string        // qualified, of what declares the processors
	wake notify.Signal // a deadline has come, or the chain is to learn what is settled

	active   atomic.Bool  // chain is not nil
	deadline atomic.Int64 // of the chain, Unix nanoseconds; 0 for none

	// mu is held while the chain runs and until what it let go is queued, which keeps the
	// order.
	mu     sync.Mutex
	chain  connector.Chain // guarded by mu; nil for none
	timer  *time.Timer     // guarded by mu: wakes at the deadline
	failed bool            // guarded by mu: the chain is broken
	closed bool            // guarded by mu: nothing may be queued any more
	tended bool            // guarded by mu: a goroutine tends it

	tokens  sync.Mutex
	settled []*token // guarded by tokens: of which the chain is to learn that they are settled
}

// token stands for a batch that a chain was given.
type token struct {
	inFlight
	origins []int32 // index of the input of each record that the chain got; nil: one to one
}

func (t *token) input(i int32) int {
	if t.origins == nil {
		return int(i)
	}
	return int(t.origins[i])
}

func newStage(id string) *stage { return &stage{id: id, wake: notify.NewSignal()} }

// install replaces the chain and returns the former one.
func (st *stage) install(chain connector.Chain) (former connector.Chain) {
	st.mu.Lock()
	defer st.mu.Unlock()
	former, st.chain = st.chain, chain
	st.active.Store(chain != nil)
	st.arm()
	return former
}

// arm sets the timer for the deadline of the chain.
func (st *stage) arm() {
	var due time.Time
	if st.chain != nil {
		due = st.chain.Deadline()
	}
	switch {
	case due.IsZero():
		st.deadline.Store(0)
		if st.timer != nil {
			st.timer.Stop()
		}
	case st.deadline.Swap(due.UnixNano()) == due.UnixNano():
	case st.timer == nil:
		st.timer = time.AfterFunc(time.Until(due), st.wake.Notify)
	default:
		st.timer.Reset(time.Until(due))
	}
}

// due reports whether the deadline has come. It is then to be armed again.
func (st *stage) due() bool {
	at := st.deadline.Load()
	if at == 0 || time.Now().UnixNano() < at {
		return false
	}
	st.deadline.Store(0)
	return true
}

// close lets nothing be queued any more, and waits until what was being queued is.
func (st *stage) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	if st.timer != nil {
		st.timer.Stop()
	}
	st.wake.Notify() // whoever tends it ends
}

// exchangeable reports whether the chain can be replaced between two batches: what it
// holds, is to emit or is to make durable would be lost.
func (st *stage) exchangeable() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.chain == nil || st.chain.Holding() == 0 && !st.chain.Observes() && st.chain.Deadline().IsZero()
}

// teardown ends the chain. It skips one that is abandoned in a call.
func (st *stage) teardown(ctx context.Context) error {
	if !st.mu.TryLock() {
		return nil
	}
	defer st.mu.Unlock()
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.chain == nil {
		return nil
	}
	var err error
	if !st.failed {
		err = st.learn(ctx)
	}
	if terr := st.chain.Teardown(ctx); err == nil {
		err = terr
	}
	if err != nil {
		return fmt.Errorf("cannot tear down the processors of %s: %w", st.id, err)
	}
	return nil
}

// noteSettled notes that all records of a batch are settled.
func (st *stage) noteSettled(t *token) {
	st.tokens.Lock()
	st.settled = append(st.settled, t)
	st.tokens.Unlock()
	st.wake.Notify()
}

// learn lets the chain learn what is settled.
func (st *stage) learn(ctx context.Context) error {
	st.tokens.Lock()
	settled := st.settled
	st.settled = nil
	st.tokens.Unlock()
	for _, t := range settled {
		if err := st.chain.Settled(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// process runs the chain over what a destination, or all of them, are to get of f: records
// with their origins. What the chain refuses goes to the dead-letter queue. It returns f,
// which knows of the chain then, with what is to be got instead.
func (st *stage) process(ctx context.Context, f inFlight, records []record.Record, origins []int32) (inFlight, made, error) {
	g := &given{records: records, origins: origins}
	f.passage = f.passage.with(g)
	t := &token{f, origins}
	out, err := st.chain.Process(ctx, t, records)
	st.arm()
	if err != nil {
		return f, made{}, st.broken(err)
	}
	if st.chain.Observes() {
		f.whenSettled(func() { st.noteSettled(t) })
	}
	f.hold(g, t, out.Held)
	m := made{records: out.Records, origins: compose(origins, out.Origins), emitted: out.Emitted}
	if len(out.Refused) > 0 {
		refused, err := f.src.run.refuseAll(ctx, t, out.Refused)
		if err != nil {
			return f, made{}, err
		}
		m.drop(refused)
	}
	return f, m, nil
}

// emit lets the chain emit records whose time has come.
func (st *stage) emit(ctx context.Context, r *run) ([]sdk.Emission, error) {
	out, err := st.chain.Process(ctx, nil, nil)
	st.arm()
	if err != nil {
		return nil, st.broken(err)
	}
	_, err = r.refuseAll(ctx, nil, out.Refused)
	return out.Emitted, err
}

// broken wraps the error of a chain of which nothing more is to be asked.
func (st *stage) broken(err error) error {
	st.failed = true
	return fmt.Errorf("cannot run the processors of %s: %w", st.id, err)
}

// made is what a chain made of a batch.
type made struct {
	records []record.Record
	origins []int32 // index of the input of each record, ascending; nil: one to one
	emitted []sdk.Emission
}

// compose returns the origins of what a chain made of records with origins of their own.
func compose(before, after []int32) []int32 {
	switch {
	case after == nil:
		return before
	case before == nil:
		return after
	}
	composed := make([]int32, len(after))
	for i, j := range after {
		composed[i] = before[j]
	}
	return composed
}

// drop drops the pieces of these inputs. The origins are those that the chain returned,
// and the records are no others' either, since it refused some.
func (m *made) drop(inputs []int32) {
	if len(inputs) == 0 || m.origins == nil {
		return
	}
	n := 0
	for i, origin := range m.origins {
		if !slices.Contains(inputs, origin) {
			m.records[n], m.origins[n] = m.records[i], origin
			n++
		}
	}
	clear(m.records[n:])
	m.records, m.origins = m.records[:n], m.origins[:n]
}
