package sdk

import (
	"context"
	"fmt"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Result waits until it is known what became of records that a destination began to write. It returns how many of the
// next ones are durable and, when err is not nil, why the one behind those is not. When that one is refused, it is
// called again for those behind it. It returns soon when its context ends.
type Result func(ctx context.Context) (n int, err error)

// maxOverlap is how many writes may be under way.
const maxOverlap = 16

// Overlap has several writes of a destination under way, and settles their records in order. Put and Flush are called
// one at a time.
type Overlap struct {
	// Begin begins to write the first n records, and says why the one behind those is refused if there is one. Neither it nor the result panics.
	Begin  func(ctx context.Context, records []record.Record) (n int, result Result, err error)
	Breaks func(err error) bool // reports whether an error breaks the destination

	ctx    context.Context // of all writes; ends with Close
	cancel context.CancelFunc
	begun  chan write
	ended  chan struct{} // closed when nothing is settled any more

	mu      sync.Mutex
	err     error // guarded by mu: why it is broken
	pending int   // guarded by mu: writes in begun, or of which records are yet to be settled
	idle    sync.Cond
}

// write is a write under way.
type write struct {
	result  Result
	n       int // records
	settled func(n int, err error)
}

// Open readies o. Close must follow.
func (o *Overlap) Open(ctx context.Context) {
	o.ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	o.begun, o.ended = make(chan write, maxOverlap), make(chan struct{})
	o.idle.L = &o.mu
	go o.settle()
}

// Put begins to write the records. settled is called for them in order; with n = 0 the destination broke. An error
// means that it is broken.
func (o *Overlap) Put(ctx context.Context, records []record.Record, settled func(n int, err error)) error {
	defer context.AfterFunc(ctx, o.cancel)()
	for len(records) > 0 {
		if err := o.broken(); err != nil {
			return err
		}
		n, result, err := o.Begin(o.ctx, records)
		switch {
		case n < 0, n > len(records), (n == len(records)) != (err == nil):
			return o.fail(fmt.Errorf("cannot write: the connector says that it began to write %d of %d records, with error %s", n, len(records), fmt.Sprint(err)))
		case err != nil && (o.ctx.Err() != nil || o.Breaks(err)):
			return o.fail(err)
		}
		if n > 0 && !o.add(write{result, n, settled}) {
			return o.broken()
		}
		if records = records[n:]; err == nil {
			continue
		}
		if err := o.Flush(ctx); err != nil {
			return err
		}
		settled(1, err)
		if ctx.Err() != nil { // one refused too many: nothing may get ahead of it
			return o.fail(ctx.Err())
		}
		records = records[1:]
	}
	return nil
}

// Flush returns when all records are settled.
func (o *Overlap) Flush(ctx context.Context) error {
	defer context.AfterFunc(ctx, o.cancel)()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.pending > 0 && o.err == nil {
		o.idle.Wait()
	}
	return o.err
}

// add has the results of a write waited for. It returns false when o is broken.
func (o *Overlap) add(w write) bool {
	o.mu.Lock()
	o.pending++
	o.mu.Unlock()
	select {
	case o.begun <- w:
		return true
	case <-o.ended:
		return false
	}
}

// settle waits for the results of writes, in order, and settles their records until o is closed or broken.
func (o *Overlap) settle() {
	defer close(o.ended)
	for {
		select {
		case w := <-o.begun:
			if err := o.finish(w); err != nil {
				_ = o.fail(err)
				if o.ctx.Err() == nil {
					w.settled(0, err)
				}
				return
			}
			o.mu.Lock()
			o.pending--
			o.idle.Signal()
			o.mu.Unlock()
		case <-o.ctx.Done():
			_ = o.fail(o.ctx.Err())
			return
		}
	}
}

// finish settles the records of a write. An error means that the destination is broken.
func (o *Overlap) finish(w write) error {
	for left := w.n; left > 0; {
		n, err := w.result(o.ctx)
		if n < 0 || n > left || (n == left) != (err == nil) {
			return fmt.Errorf("cannot write: the connector says that it wrote %d of %d records, with error %s", n, left, fmt.Sprint(err))
		}
		if n > 0 {
			w.settled(n, nil)
		}
		switch left -= n; {
		case err == nil:
			return nil
		case o.ctx.Err() != nil, o.Breaks(err):
			return err
		}
		w.settled(1, err)
		left--
		if err := o.ctx.Err(); err != nil { // one refused too many: nothing may get ahead of it
			return err
		}
	}
	return nil
}

// fail notes why o is broken, and returns the first reason.
func (o *Overlap) fail(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.idle.Signal()
	return o.err
}

func (o *Overlap) broken() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close gives up what is under way, and returns when nothing is settled any more.
func (o *Overlap) Close() {
	if o.cancel == nil {
		return
	}
	o.cancel()
	<-o.ended
}
