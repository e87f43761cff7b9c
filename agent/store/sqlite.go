package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/spec"
)

// sqlite is the file of a store and the connections to it: it opens them, closes and opens
// them again after an error of the disk, and commits writes in groups.
type sqlite struct {
	// Synced is called with how long it took to write a transaction to the disk, with fsync.
	// Set it before the first write.
	Synced func(took time.Duration)
	// What was refused for what is in it does not count.
	sqlitefile.Health

	path    string
	network bool // the file may be on a network file system
	now     func() time.Time
	log     *slog.Logger
	lock    *sqlitefile.Lock
	load    func(ctx context.Context, p *pools) error // reads what is held in memory

	checked bool     // all of the file was read, and nothing was damaged
	adopted *Adopted // set when the file was put in the place of another one

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

// Adopted says which sources go back, because a file of earlier was put in the place of the store.
type Adopted struct {
	Sources []spec.Checkpoint // by id

	generation int32
	done       bool
}

// Adopted returns nil unless a file of earlier was put in the place of the store since it was open last.
func (q *sqlite) Adopted() *Adopted { return q.adopted }

func (q *sqlite) open(ctx context.Context) (err error) {
	if !q.network {
		if err := sqlitefile.RefuseNetwork(q.path); err != nil {
			return err
		}
	}
	if q.lock, err = sqlitefile.LockFile(q.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = q.lock.Release() // err says more
		}
	}()
	if err := createFile(ctx, q.path, q.now); err != nil {
		return err
	}
	if err := Identify(q.path); err != nil {
		return err
	}
	state, err := sqlitefile.StateOf(q.path)
	if err == nil {
		err = state.Err(q.path)
	}
	if err == nil && state.Replaced() {
		q.adopted = &Adopted{}
		q.adopted.generation, err = state.Adopt(q.path)
	}
	if err != nil {
		return sqlitefile.Explain(q.path, err)
	}
	if err := sqlitefile.RewriteLog(q.path); err != nil { // its last fsync may have failed in a process that is no more
		return sqlitefile.Explain(q.path, err)
	}
	sqlitefile.TightenMode(q.log.With("component", "store"), "the store, which holds secrets of settings", q.path, q.path+"-wal", q.path+"-shm", q.path+".lock")
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
		err = sqlitefile.Explain(q.path, q.pools.close(context.Background()))
		q.pools = nil
		sqlitefile.WarnOfLog(q.log.With("component", "store"), q.path)
	}
	return errors.Join(err, q.lock.Release())
}

// use calls f with the open pools, of which the writer may be missing. When f's error means that the
// disk failed, the pools are closed and the next call opens them again.
func (q *sqlite) use(f func(p *pools) error) error { return q.with(false, f) }

// useWriter is use for writing.
func (q *sqlite) useWriter(f func(p *pools) error) error {
	err := q.with(true, f)
	switch kind := sqlitefile.Kind(err); {
	case err == nil:
		q.Passed()
	case kind != nil:
		q.Failed(err)
	}
	return err
}

func (q *sqlite) with(writer bool, f func(p *pools) error) error {
	p, err := q.acquire(writer)
	if err != nil {
		return err
	}
	err = sqlitefile.Explain(q.path, f(p))
	q.mu.RUnlock()
	if sqlitefile.Untrustworthy(err) {
		q.discard(p, errors.Is(err, ErrDamaged))
	}
	return err
}

// acquire returns the open pools and holds q.mu for reading when it returns no error.
func (q *sqlite) acquire(writer bool) (*pools, error) {
	for {
		q.mu.RLock()
		switch {
		case q.closed:
			q.mu.RUnlock()
			return nil, ErrClosed
		case q.pools != nil && (q.pools.writer != nil || !writer):
			return q.pools, nil
		}
		q.mu.RUnlock()
		if readable, err := q.recover(); err != nil && (writer || !readable) {
			return nil, err
		}
	}
}

// recover opens the file again after the disk failed. While that is not possible, the file is
// opened for reading only; readable says whether it is.
func (q *sqlite) recover() (readable bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.pools != nil && q.pools.writer != nil {
		return true, nil
	}
	if q.pools != nil {
		_ = q.pools.abandon() // nothing was written by it
		q.pools = nil
	}
	ctx := context.Background()
	if err = sqlitefile.RewriteLog(q.path); err == nil {
		err = q.reopen(ctx)
	}
	if err == nil {
		return true, nil
	}
	q.readOnly(ctx)
	return q.pools != nil, fmt.Errorf("cannot reopen store %q: %w", q.path, sqlitefile.Explain(q.path, err))
}

// discard closes p because it cannot be trusted any more. When it is damaged, the file is checked
// when it is opened again.
func (q *sqlite) discard(p *pools, damaged bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if damaged {
		q.checked = false
	}
	if q.pools == p {
		_ = p.abandon() // why it is discarded says more
		q.pools = nil
	}
}

// reopen opens the pools and reads what is held in memory. The caller holds q.mu or
// has not shared q yet.
func (q *sqlite) reopen(ctx context.Context) error {
	p := openPools(q.path)
	if err := q.prepare(ctx, p); err != nil {
		return errors.Join(sqlitefile.Explain(q.path, err), p.abandon())
	}
	p.identify(q.path)
	q.pools, q.checked = p, true
	return nil
}

// readOnly opens the file for reading, if it can be.
func (q *sqlite) readOnly(ctx context.Context) {
	p := &pools{}
	p.reader = openReader(q.path, p.inPlace)
	if q.load(ctx, p) != nil {
		_ = p.abandon()
		return
	}
	p.identify(q.path)
	q.pools = p
}

// prepare checks the file, brings its tables up to date and marks it as open. The reading connections
// come first, because they cannot change a store that is then refused.
func (q *sqlite) prepare(ctx context.Context, p *pools) error {
	if !q.checked {
		if err := sqlitefile.QuickCheck(ctx, p.reader); err != nil {
			return err
		}
	}
	if err := checkKnown(ctx, p.reader); err != nil {
		return err
	}
	if err := q.backUp(ctx, p.reader); err != nil {
		return err
	}
	if err := migrate(ctx, p.writer, q.now); err != nil {
		return err
	}
	if a := q.adopted; a != nil && !a.done {
		sources, err := fenceRestored(ctx, p.writer, a.generation, q.now())
		if err != nil {
			return fmt.Errorf("cannot take over a file that was put in place: %w", err)
		}
		a.Sources, a.done = sources, true
	}
	if err := sqlitefile.Explain(q.path, sqlitefile.Begin(ctx, p.writer, q.path)); err != nil {
		if !errors.Is(err, ErrFull) {
			return err
		}
		q.Failed(err) // the file goes unmarked, and is read as before
	}
	return q.load(ctx, p)
}

// backUp makes a backup of a store that is to be migrated, unless there is one.
func (q *sqlite) backUp(ctx context.Context, reader *sql.DB) error {
	applied, err := appliedMigrations(ctx, reader)
	if err != nil {
		return err
	}
	known := migrationNames()
	if len(applied) == 0 || len(applied) >= len(known) {
		return nil
	}
	to := q.path + ".before-" + known[len(applied)]
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := File(q.path).Copy(ctx, to); err != nil {
		return fmt.Errorf("cannot migrate without a backup: %w", err)
	}
	q.log.Info("the store was backed up before its tables are changed", "component", "store", "file", to)
	return nil
}
