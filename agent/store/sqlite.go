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

// sqlite is the file of a store with its connections. It opens the connections, reopens them after a disk error, and
// performs group commits.
type sqlite struct {
	// Synced is called with the time that it took to write a transaction to the disk, including fsync. Set it before
	// the first write.
	Synced func(took time.Duration)
	// Health ignores writes that were refused because of their content.
	sqlitefile.Health

	path    string
	network bool // the file may be on a network file system
	now     func() time.Time
	log     *slog.Logger
	lock    *sqlitefile.Lock
	load    func(ctx context.Context, p *pools) error // loads the data held in memory

	checked bool     // the whole file was read without damage
	adopted *Adopted // set when the file replaced another one

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

// Adopted lists the sources that resume from older positions because an older file replaced the store.
type Adopted struct {
	Sources []spec.Checkpoint // by id

	generation int32
	done       bool
}

// Adopted returns nil unless an older file replaced the store since it was last open.
func (q *sqlite) Adopted() *Adopted { return q.adopted }

func (q *sqlite) open(ctx context.Context) (err error) {
	if !q.network {
		if err := sqlitefile.CheckNetwork(q.path); err != nil {
			return err
		}
	}
	if q.lock, err = sqlitefile.LockFile(q.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = q.lock.Release() // err is the more important error
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
	if err := sqlitefile.RewriteLog(q.path); err != nil { // the last fsync may have failed in an earlier process
		return sqlitefile.Explain(q.path, err)
	}
	sqlitefile.TightenMode(q.log.With("component", "store"), "the store, which holds secrets of settings", q.path,
		q.path+"-wal", q.path+"-shm", q.path+".lock")
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

// use calls f with the open pools, which may lack a writer. If f's error means that the disk failed, use closes the
// pools, and the next call opens them again.
func (q *sqlite) use(f func(p *pools) error) error { return q.with(false, f) }

// useWriter is use with a writer.
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

// acquire returns the open pools. It holds q.mu for reading if it returns no error.
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

// recover opens the file again after the disk failed. If that is not possible, it opens the file read-only; readable
// reports whether the file is open.
func (q *sqlite) recover() (readable bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.pools != nil && q.pools.writer != nil {
		return true, nil
	}
	if q.pools != nil {
		_ = q.pools.abandon() // it has written nothing
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

// discard closes p because it is no longer trustworthy. If the file is damaged, it is checked when it is opened again.
func (q *sqlite) discard(p *pools, damaged bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if damaged {
		q.checked = false
	}
	if q.pools == p {
		_ = p.abandon() // the reason for discarding p is more important
		q.pools = nil
	}
}

// reopen opens the pools and loads the data held in memory. The caller holds q.mu or has not shared q yet.
func (q *sqlite) reopen(ctx context.Context) error {
	p := openPools(q.path)
	if err := q.prepare(ctx, p); err != nil {
		return errors.Join(sqlitefile.Explain(q.path, err), p.abandon())
	}
	p.identify(q.path)
	q.pools, q.checked = p, true
	return nil
}

// readOnly opens the file for reading, if possible.
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

// prepare checks the file, migrates its tables and marks it as open. The reading connections come first, because they
// cannot change a store that is then refused.
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
			return fmt.Errorf("cannot take over a replaced file: %w", err)
		}
		a.Sources, a.done = sources, true
	}
	if err := sqlitefile.Explain(q.path, sqlitefile.Begin(ctx, p.writer, q.path)); err != nil {
		if !errors.Is(err, ErrFull) {
			return err
		}
		q.Failed(err) // the file stays unmarked, and is still readable
	}
	return q.load(ctx, p)
}

// backUp makes a backup of a store before its migration, unless one exists.
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
	q.log.Info("backed up the store before a migration", "component", "store", "file", to)
	return nil
}
