// Package store keeps what the agent must not forget: desired state and its history,
// observed state, source positions, events and schemas, in one SQLite file.
//
// Every write is durable when the method returns nil: the write-ahead log is synced
// at each commit (synchronous=FULL). Writes that arrive together share a commit, so
// a thousand pipelines that start at once cost a few syncs. The file belongs to one
// process at a time; what is read often (declarations, states of connectors) is held in memory
// beside it and replaced after the commit.
//
// After an error of the disk the connections are closed, and the next call opens the
// file again and reads what is really there. The tables are described in migrations/.
package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// DB is an open store. Its methods may be called from any goroutine.
type DB struct {
	// OnChange is called after each commit that changed desired state, from the goroutine
	// that made the change, with what was passed to Apply or ApplyIf, or nil. It must not
	// block. Set it before the first write.
	OnChange func(c *spec.Changes)
	// Synced is called with how long it took to write a transaction to the disk, with fsync.
	// Set it before the first write.
	Synced func(took time.Duration)

	path string
	now  func() time.Time
	lock *fileLock

	mu     sync.RWMutex // held for reading while pools are in use, for writing to replace them
	pools  *pools       // nil after the disk failed, until the next call
	closed bool

	declarations cache[spec.Declaration] // as committed; loaded together with pools
	files        docs[spec.FileState]
	connectors   docs[spec.ConnectorState]

	turn    chan struct{} // held by the goroutine that commits
	queueMu sync.Mutex
	queue   []*write // waiting to be committed
}

// Option changes how a store is opened.
type Option func(*DB)

// WithClock makes the store take the time from now instead of time.Now.
func WithClock(now func() time.Time) Option { return func(db *DB) { db.now = now } }

// Open opens the store at path, creating it (mode 0600) when there is none. It refuses,
// leaving the file as it is, when another process has it open (ErrLocked), when a newer
// version wrote it (ErrNewer) and when it is damaged or something else (ErrDamaged).
func Open(ctx context.Context, path string, opts ...Option) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open store %q: %w", path, err)
	}
	db := newDB(abs)
	for _, opt := range opts {
		opt(db)
	}
	if err := db.open(ctx); err != nil {
		return nil, fmt.Errorf("cannot open store %q: %w", path, err)
	}
	return db, nil
}

func newDB(path string) *DB {
	return &DB{
		path:         path,
		now:          time.Now,
		turn:         make(chan struct{}, 1),
		declarations: cache[spec.Declaration]{key: func(d *spec.Declaration) string { return d.Pipeline.ID }},
		files:        newDocs("files", func(f *spec.FileState) string { return f.Path }),
		connectors:   newDocs("connectors", func(c *spec.ConnectorState) string { return c.ID }),
	}
}

func (db *DB) open(ctx context.Context) (err error) {
	if db.lock, err = lockFile(db.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = db.lock.release() // err says more
		}
	}()
	if err := createFile(ctx, db.path, db.now); err != nil {
		return err
	}
	if err := checkHeader(db.path); err != nil {
		return err
	}
	return db.reopen(ctx)
}

// Close waits for the calls in progress and closes the store. Later calls return ErrClosed.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	var err error
	if db.pools != nil {
		err = db.pools.close()
		db.pools = nil
	}
	return errors.Join(err, db.lock.release())
}

// use calls f with the open pools. When f's error means that the disk failed, the
// pools are closed and the next call opens them again.
func (db *DB) use(f func(p *pools) error) error {
	p, err := db.acquire()
	if err != nil {
		return err
	}
	err = classify(f(p))
	db.mu.RUnlock()
	if untrustworthy(err) {
		db.discard(p)
	}
	return err
}

// acquire returns the open pools and holds db.mu for reading when it returns no error.
func (db *DB) acquire() (*pools, error) {
	for {
		db.mu.RLock()
		if db.closed {
			db.mu.RUnlock()
			return nil, ErrClosed
		}
		if db.pools != nil {
			return db.pools, nil
		}
		db.mu.RUnlock()
		if err := db.recover(); err != nil {
			return nil, err
		}
	}
}

func (db *DB) recover() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || db.pools != nil {
		return nil
	}
	if err := db.reopen(context.Background()); err != nil {
		return fmt.Errorf("cannot reopen store %q: %w", db.path, err)
	}
	return nil
}

// discard closes p because it cannot be trusted any more.
func (db *DB) discard(p *pools) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.pools == p {
		p.close()
		db.pools = nil
	}
}

// reopen opens the pools and reads what is held in memory. The caller holds db.mu or
// has not shared db yet.
func (db *DB) reopen(ctx context.Context) error {
	p, err := openPools(ctx, db.path, db.now)
	if err != nil {
		return classify(err)
	}
	if err := db.load(ctx, p); err != nil {
		return errors.Join(classify(err), p.close())
	}
	p.identify(db.path)
	db.pools = p
	return nil
}

func (db *DB) load(ctx context.Context, p *pools) error {
	return errors.Join(
		loadDeclarations(ctx, p.reader, declarationColumns, &db.declarations),
		db.files.load(ctx, p.reader),
		db.connectors.load(ctx, p.reader),
	)
}
