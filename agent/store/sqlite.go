package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec/private"
)

// sqlite is the file of a store and the connections to it: it opens them, closes and opens
// them again after an error of the disk, and commits writes in groups.
type sqlite struct {
	// Synced is called with how long it took to write a transaction to the disk, with fsync.
	// Set it before the first write.
	Synced func(took time.Duration)

	path string
	now  func() time.Time
	log  *slog.Logger
	lock *fileLock
	load func(ctx context.Context, p *pools) error // reads what is held in memory

	mu     sync.RWMutex // held for reading while pools are in use, for writing to replace them
	pools  *pools       // nil after the disk failed, until the next call
	closed bool

	commits chan struct{} // semaphore: held by the goroutine that commits
	queueMu sync.Mutex
	queue   []*write // guarded by queueMu; waiting to be committed
}

func newSQLite(path string) *sqlite {
	return &sqlite{path: path, now: time.Now, log: slog.New(slog.DiscardHandler), commits: make(chan struct{}, 1)}
}

func (q *sqlite) open(ctx context.Context) (err error) {
	if q.lock, err = lockFile(q.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = q.lock.release() // err says more
		}
	}()
	if err := createFile(ctx, q.path, q.now); err != nil {
		return err
	}
	if err := checkHeader(q.path); err != nil {
		return err
	}
	private.Tighten(q.log.With("component", "store"), "the store, which holds secrets of settings", q.path, q.path+"-wal", q.path+"-shm", q.path+".lock")
	return q.reopen(ctx)
}

// Close waits for the calls in progress and closes the store. Later calls return ErrClosed.
func (q *sqlite) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	var err error
	if q.pools != nil {
		err = q.pools.close()
		q.pools = nil
	}
	return errors.Join(err, q.lock.release())
}

// use calls f with the open pools. When f's error means that the disk failed, the
// pools are closed and the next call opens them again.
func (q *sqlite) use(f func(p *pools) error) error {
	p, err := q.acquire()
	if err != nil {
		return err
	}
	err = classify(f(p))
	q.mu.RUnlock()
	if untrustworthy(err) {
		q.discard(p)
	}
	return err
}

// acquire returns the open pools and holds q.mu for reading when it returns no error.
func (q *sqlite) acquire() (*pools, error) {
	for {
		q.mu.RLock()
		if q.closed {
			q.mu.RUnlock()
			return nil, ErrClosed
		}
		if q.pools != nil {
			return q.pools, nil
		}
		q.mu.RUnlock()
		if err := q.recover(); err != nil {
			return nil, err
		}
	}
}

func (q *sqlite) recover() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.pools != nil {
		return nil
	}
	if err := q.reopen(context.Background()); err != nil {
		return fmt.Errorf("cannot reopen store %q: %w", q.path, err)
	}
	return nil
}

// discard closes p because it cannot be trusted any more.
func (q *sqlite) discard(p *pools) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pools == p {
		p.close()
		q.pools = nil
	}
}

// reopen opens the pools and reads what is held in memory. The caller holds q.mu or
// has not shared q yet.
func (q *sqlite) reopen(ctx context.Context) error {
	p, err := openPools(ctx, q.path, q.now)
	if err != nil {
		return classify(err)
	}
	if err := q.load(ctx, p); err != nil {
		return errors.Join(classify(err), p.close())
	}
	p.identify(q.path)
	q.pools = p
	return nil
}
