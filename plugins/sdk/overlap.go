package sdk

import (
	"context"
	"fmt"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Result waits for the outcome of records that a destination began to write. It returns the number n of records that
// are durable and, if err is not nil, the reason why record n is not. If record n is refused, Result is called again
// for the records after it. Result returns soon after its context ends.
type Result func(ctx context.Context) (n int, err error)

// maxOverlap is the maximum number of writes in progress.
const maxOverlap = 16

// Overlap runs several writes of a destination at the same time, and settles their records in order. Put and Flush are
// called one at a time.
type Overlap struct {
	// Begin begins to write the first n records, and returns the reason why record n is refused, if any. Neither it nor
	// the result panics.
	Begin  func(ctx context.Context, records []record.Record) (n int, result Result, err error)
	Breaks func(err error) bool // reports whether an error breaks the destination

	ctx    context.Context // context of all writes; ends with Close
	cancel context.CancelFunc
	begun  chan write
	ended  chan struct{} // closed after the last settled call

	mu      sync.Mutex
	err     error // guarded by mu: why o is broken
	pending int   // guarded by mu: writes in begun, or with unsettled records
	idle    sync.Cond
}

// write is a write in progress.
type write struct {
	result  Result
	n       int // number of records
	settled func(n int, err error)
}

// Open prepares o. Close must follow.
func (o *Overlap) Open(ctx context.Context) {
	o.ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	o.begun, o.ended = make(chan write, maxOverlap), make(chan struct{})
	o.idle.L = &o.mu
	go o.settle()
}

// Put begins to write the records. settled is called for them in order; with n = 0 the destination broke. An error
// means that the destination is broken.
func (o *Overlap) Put(ctx context.Context, records []record.Record, settled func(n int, err error)) error {
	defer context.AfterFunc(ctx, o.cancel)()
	for len(records) > 0 {
		if err := o.broken(); err != nil {
			return err
		}
		n, result, err := o.Begin(o.ctx, records)
		switch {
		case n < 0, n > len(records), (n == len(records)) != (err == nil):
			return o.fail(fmt.Errorf("cannot write: the connector reported %d of %d records as begun, with error %s",
				n, len(records), fmt.Sprint(err)))
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
		if ctx.Err() != nil { // a final refusal: no later record may be written
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

// add queues a write whose result settle waits for. It returns false if o is broken.
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
			return fmt.Errorf("cannot write: the connector reported %d of %d records as written, with error %s",
				n, left,
				fmt.Sprint(err))
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
		if err := o.ctx.Err(); err != nil { // a final refusal: no later record may be written
			return err
		}
	}
	return nil
}

// fail marks o as broken by err, and returns the first reason.
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

// Close cancels the writes in progress, and returns after the last settled call.
func (o *Overlap) Close() {
	if o.cancel == nil {
		return
	}
	o.cancel()
	<-o.ended
}
