package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// write is a change that waits for its commit.
type write struct {
	cancelled func() error
	do        func(tx *sql.Tx) error // may be called again after a rollback
	committed func()                 // updates the memory; may be nil
	done      chan struct{}          // closed when err is final
	err       error
}

// write performs do in a transaction and returns when the transaction is durable or has had no effect. Writes that wait
// at the same time are committed together; a failed one does not affect the others. A write that has begun is not
// abandoned when ctx ends, because its outcome would be unknown. After the commit, write calls committed, in the order
// of the commits.
func (q *sqlite) write(ctx context.Context, do func(tx *sql.Tx) error, committed func()) error {
	w := &write{cancelled: ctx.Err, do: do, committed: committed, done: make(chan struct{})}
	q.queueMu.Lock()
	q.queue = append(q.queue, w)
	q.queueMu.Unlock()
	select {
	case <-w.done:
		return w.err
	case q.commits <- struct{}{}:
	}
	q.commitQueue()
	<-q.commits
	<-w.done
	return w.err
}

// Check returns nil if the store can be written. It waits as long as that takes.
func (q *sqlite) Check(ctx context.Context) error {
	err := q.write(ctx, func(*sql.Tx) error { return nil }, nil)
	if err != nil {
		return fmt.Errorf("cannot write to the store: %w", err)
	}
	return nil
}

// Probe returns nil if the store was written successfully.
func (q *sqlite) Probe(ctx context.Context) error {
	err := q.write(ctx, func(tx *sql.Tx) error {
		_, err := exec(tx, `INSERT INTO runs (pipeline_id, epoch) VALUES ('', 0) ON CONFLICT (pipeline_id) DO UPDATE `+
			`SET epoch = epoch`)
		return err
	}, nil)
	return wrap(err, "cannot write to the store")
}

// commitQueue commits all waiting writes. The caller holds the semaphore.
func (q *sqlite) commitQueue() {
	q.queueMu.Lock()
	batch := q.queue
	q.queue = nil
	q.queueMu.Unlock()
	live := batch[:0:0]
	for _, w := range batch {
		if w.err = w.cancelled(); w.err != nil {
			close(w.done)
			continue
		}
		live = append(live, w)
	}
	if len(live) == 0 {
		return
	}
	err := q.commit(live)
	if err == nil || len(live) == 1 || sqlitefile.Untrustworthy(err) {
		finish(live, err)
		return
	}
	for i := range live {
		finish(live[i:i+1], q.commit(live[i:i+1]))
	}
}

func finish(batch []*write, err error) {
	for _, w := range batch {
		w.err = err
		close(w.done)
	}
}

// commit performs batch in one transaction, completely or not at all.
func (q *sqlite) commit(batch []*write) error {
	return q.useWriter(func(p *pools) error {
		if err := q.transact(p.writer, batch); err != nil {
			return err
		}
		for _, w := range batch {
			if w.committed != nil {
				w.committed()
			}
		}
		return nil
	})
}

func (q *sqlite) transact(writer *sql.DB, batch []*write) error {
	tx, err := writer.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	for _, w := range batch {
		if err := w.do(tx); err != nil {
			return errors.Join(err, rollback(tx))
		}
	}
	begin := time.Now()
	err = tx.Commit()
	if q.Synced != nil {
		q.Synced(time.Since(begin))
	}
	return err
}

// rollback undoes tx. After some errors SQLite has already done so; that is not an error.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); sqlitefile.Untrustworthy(err) {
		return err
	}
	return nil
}
