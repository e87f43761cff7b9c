// Package store keeps the durable state of the agent in one SQLite file: desired state and its history, observed state,
// source positions, events and schemas.
//
// Every write is durable when the method returns nil: the write-ahead log is synced at each commit (synchronous=FULL).
// Writes that arrive together share a commit, so a thousand pipelines that start at once cost a few syncs. The file
// belongs to one process at a time. Data that is read often (declarations, states of connectors) is also held in
// memory, and replaced after the commit.
//
// After a disk error the connections are closed, and the next call opens the file again and reads its actual content.
// The tables are described in migrations/.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// DB is an open store. Its methods may be called from any goroutine.
type DB struct {
	// OnChange is called after each commit that changed desired state, from the goroutine that made the change. Its
	// argument is the one of Apply or ApplyIf, or nil. It must not block. Set it before the first write.
	OnChange func(c *spec.Changes)
	// Retention bounds the stored data of deleted pipelines. Set it before the first write. nil: everything is kept.
	Retention *Retention

	*sqlite
	checkpoints
	answers

	logKept    atomic.Bool  // the write-ahead log contains deleted data
	eventBytes atomic.Int64 // upper bound of the bytes of events; 0: not known

	declarations Cache[spec.Declaration] // as committed; loaded together with pools
	files        docs[spec.FileState]
	connectors   docs[spec.ConnectorState]
}

// Option changes how a store is opened.
type Option func(*DB)

// WithLog makes the store log to log. Otherwise it logs nothing.
func WithLog(log *slog.Logger) Option { return func(db *DB) { db.log = log } }

// WithClock makes the store take the time from now instead of time.Now.
func WithClock(now func() time.Time) Option { return func(db *DB) { db.now = now } }

// OnNetwork lets the store be on a network file system.
func OnNetwork(allowed bool) Option { return func(db *DB) { db.network = allowed } }

// Open opens the store at path, creating it (mode 0600) if there is none. It reads the whole file. In the following
// cases it leaves the file unchanged and returns
//   - ErrLocked when another process has it open,
//   - ErrNewer when a newer version wrote it,
//   - ErrDamaged when it is damaged,
//   - sqlitefile.ErrIncomplete when its write-ahead log is missing,
//   - ErrOther when it is a file of another kind.
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
	file := newSQLite(path)
	db := &DB{
		sqlite:       file,
		checkpoints:  checkpoints{file},
		answers:      answers{file},
		declarations: Cache[spec.Declaration]{Key: func(d *spec.Declaration) string { return d.Pipeline.ID }},
		files:        newDocs("files", func(f *spec.FileState) string { return f.Path }),
		connectors:   newDocs("connectors", func(c *spec.ConnectorState) string { return c.ID }),
	}
	file.load = db.load
	return db
}

func (db *DB) load(ctx context.Context, p *pools) error {
	return errors.Join(
		loadDeclarations(ctx, p.reader, declarationColumns, &db.declarations),
		db.files.load(ctx, p.reader),
		db.connectors.load(ctx, p.reader),
	)
}
