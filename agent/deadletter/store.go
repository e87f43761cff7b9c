// Package deadletter keeps dead letters on disk until they are replayed or dropped, and replays them. A dead letter is
// a record that a processor or destination refused.
//
// The store is a separate SQLite file next to the desired state, created with the first dead letter. Dead letters are
// durable before the positions that cover them (Store.Before), so that no source receives an acknowledgment for a
// refused record that is not on disk. One fsync covers all refusals since the previous one.
//
// A replay is a separate run of the engine, with its own connectors and processors. The pipeline itself may run at the
// same time or be stopped. The source of a replay is the store. A record enters at the processor or destination that
// refused it, and is removed from the store only when it is settled.
package deadletter

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Limits bound the store. The oldest dead letters of the largest queue are dropped first.
type Limits struct {
	Count int64
	Bytes int64
	Age   time.Duration // 0 for no limit
}

// Store keeps dead letters. Set the exported fields before use. Its methods may be called
// from any goroutine.
type Store struct {
	Path    string
	Limits  Limits
	Clock   HostClock // the zero value uses the clocks of the host
	Changed func()    // called after dead letters were added or removed; must not block; may be nil
	Log     *slog.Logger
	// Memory returns a memory counter for one user of the store. If it is nil, memory is not counted.
	Memory func() Memory

	Kept     atomic.Uint64 // dead letters written since the start
	Replayed atomic.Uint64 // dead letters settled by a replay since the start

	sqlitefile.Health

	mu      sync.Mutex    // one transaction at a time
	db      *sql.DB       // guarded by mu; nil while it is not open
	failed  bool          // guarded by mu: the view of the file in db may be wrong
	checked bool          // guarded by mu: the whole file was read without damage
	last    int64         // guarded by mu: time of the newest dead letter
	jump    time.Duration // guarded by mu: change of the clock by which the times of dead letters were not moved yet
	closed  bool          // guarded by mu
	limiter limiter       // guarded by mu

	queue queue
	wake  notify.Signal
	once  sync.Once
}

// Memory counts the memory of dead letters.
type Memory interface {
	// Take counts n bytes. If they exceed the limit, it counts nothing and returns false.
	Take(n int) bool
	// Add counts n bytes more, or -n bytes less, regardless of the limit.
	Add(n int)
	// Close releases all counted bytes.
	Close()
}

//go:embed schema.sql
var schema string

const (
	applicationID = 0x636f6e65 // in the header of the file, to distinguish it from others
	version       = 2
)

// migrations holds, by the version of a file, the statements that turn it into a file of the next version.
var migrations = map[int]string{
	1: `ALTER TABLE letters RENAME TO dead_letters;
		DROP INDEX letters_by_pipeline;
		CREATE INDEX dead_letters_by_pipeline ON dead_letters (pipeline_id, id);
		DROP INDEX letters_by_time;
		CREATE INDEX dead_letters_by_time ON dead_letters (pipeline_id, at);`,
}

// Former holds, by their names, the names of tables in files of earlier versions.
var Former = map[string]string{"dead_letters": "letters"}

// dsn makes SQLite sync every commit and overwrite deleted data.
const dsn = "_synchronous=FULL&_foreign_keys=on&_busy_timeout=5000&_txlock=immediate&" +
	"_journal_mode=WAL&_secure_delete=on&_auto_vacuum=incremental&_stmt_cache_size=32"

func (s *Store) init() {
	s.once.Do(func() {
		s.wake = notify.NewSignal()
		if s.Memory != nil {
			s.queue.memory = s.Memory()
		}
	})
}

// ReserveFor reserves n bytes of memory for a request until ctx ends. A nil memory has no limit.
func ReserveFor(ctx context.Context, memory func() Memory, n int) error {
	if memory == nil {
		return nil
	}
	m := memory()
	if !m.Take(n) {
		m.Close()
		return &spec.Error{Kind: spec.ErrExhausted, Code: spec.CodeTooMany, Message: fmt.Sprintf(
			"not enough memory to show dead letters of %d bytes: try again, or raise memory.limit", n)}
	}
	context.AfterFunc(ctx, m.Close)
	return nil
}

// exists reports whether the store at path was ever created.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// use calls f with the open database. After an error it closes the database, whose memory may differ from the disk, and
// the next call opens it again.
func (s *Store) use(ctx context.Context, f func(db *sql.DB) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the dead-letter store is closed")
	}
	err := sqlitefile.Explain(s.Path, s.reopen(ctx))
	if err != nil {
		err = fmt.Errorf("cannot open the dead-letter store %s: %w", s.Path, err)
		s.Failed(err)
		return err
	}
	err = f(s.db)
	if err == nil || errors.Is(err, spec.ErrNotFound) || ctx.Err() != nil {
		s.Passed()
		return err
	}
	if s.failed = sqlitefile.Untrustworthy(err); !s.failed {
		_ = s.db.Close() // err is the more important error
		s.db = nil
	}
	err = fmt.Errorf("cannot use the dead-letter store %s: %w", s.Path, sqlitefile.Explain(s.Path, err))
	s.checked = s.checked && !errors.Is(err, sqlitefile.ErrDamaged)
	s.Failed(err)
	return err
}

// Probe returns nil if the store could be written, or does not exist.
func (s *Store) Probe(ctx context.Context) error {
	if !exists(s.Path) {
		return s.Flush(ctx)
	}
	return s.use(ctx, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version))
		return err
	})
}

// reopen opens the database unless it is open. A failed one is closed first, which writes its log back, so the log must
// be durable before that.
func (s *Store) reopen(ctx context.Context) error {
	if s.failed {
		if err := sqlitefile.RewriteLog(s.Path); err != nil {
			return err
		}
		_ = s.db.Close() // the data in the log is not lost
		s.db, s.failed = nil, false
	}
	if s.db != nil {
		return nil
	}
	return s.open(ctx)
}

// open opens the database, and creates it if there is none.
func (s *Store) open(ctx context.Context) (err error) {
	if err := create(ctx, s.Path); err != nil {
		return err
	}
	if err := sqlitefile.RewriteLog(s.Path); err != nil { // the last fsync may have failed in an earlier process
		return err
	}
	db, err := connect(s.Path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if err := s.backUp(ctx, db); err != nil {
		return err
	}
	if err := migrate(ctx, db); err != nil {
		return err
	}
	if !s.checked {
		if err := sqlitefile.QuickCheck(ctx, db); err != nil {
			return err
		}
		s.checked = true
	}
	if err := db.QueryRowContext(ctx, `SELECT coalesce(max(at), 0) FROM dead_letters WHERE id = (SELECT max(id) FROM `+
		`dead_letters)`).Scan(&s.last); err != nil {
		return err
	}
	sqlitefile.TightenMode(s.Log.With("component", "dead-letters"), "the dead-letter store, which holds records",
		s.Path, s.Path+"-wal", s.Path+"-shm")
	s.db = db
	return nil
}

// backUp copies a file of an earlier version before its migration, unless there is a copy. A downgrade needs the copy.
func (s *Store) backUp(ctx context.Context, db *sql.DB) error {
	id, have, err := header(ctx, db)
	if err != nil || id != applicationID || have >= version {
		return err
	}
	to := fmt.Sprintf("%s.before-%d", s.Path, have+1)
	if exists(to) {
		return nil
	}
	if err := (sqlitefile.File{Path: s.Path}).Copy(ctx, to); err != nil {
		return fmt.Errorf("cannot migrate without a backup: %w", err)
	}
	s.Log.Info("backed up the dead-letter store before a migration", "component", "dead-letters", "file", to)
	return nil
}

func connect(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+dsn)
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// create creates the file, readable by its owner only, if there is none. The file gets its name when it is complete, so
// an empty file is always a damaged one.
func create(ctx context.Context, path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return fmt.Errorf("%w: %s is empty; restore a backup with conduit store restore FILE, or move the file away, "+
			"which loses its dead letters", sqlitefile.ErrDamaged, path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft := path + ".new"
	if err := Create(ctx, draft); err != nil {
		return err
	}
	return sqlitefile.Place(draft, path)
}

// PathOf returns the path of the dead-letter store of the agent whose store is at path.
func PathOf(store string) string { return store + ".dead-letters" }

// Mend holds statements that, after a repair, delete rows without their parent rows and count the rest.
var Mend = []string{
	`DELETE FROM bodies WHERE id NOT IN (SELECT id FROM dead_letters)`,
	`DELETE FROM dead_letters WHERE id NOT IN (SELECT id FROM bodies)`,
	`INSERT OR IGNORE INTO totals (pipeline_id) SELECT DISTINCT pipeline_id FROM dead_letters`,
	`UPDATE totals SET count = (SELECT count(*) FROM dead_letters l WHERE l.pipeline_id = totals.pipeline_id),
		bytes = (SELECT coalesce(sum(l.bytes), 0) FROM dead_letters l WHERE l.pipeline_id = totals.pipeline_id)`,
}

// Create creates an empty dead-letter store at path, replacing an existing file.
func Create(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, sqlitefile.PrivateMode)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db, err := connect(path)
	if err != nil {
		return err
	}
	return errors.Join(migrate(ctx, db), db.Close())
}

// Identify returns an error unless the file at path is a dead-letter store that this agent can read, according to its
// header. It does not open the file with SQLite.
func Identify(path string) error {
	id, err := sqlitefile.ApplicationID(path)
	if err != nil {
		return err
	}
	state, err := sqlitefile.StateOf(path)
	if err != nil {
		return err
	}
	return identify(int(id), int(state.Generation))
}

// identify returns an error unless a file with this header is a dead-letter store that this agent can read.
func identify(id, have int) error {
	switch {
	case id == applicationID && have > 0 && have <= version:
		return nil
	case id == applicationID && have > version:
		return fmt.Errorf("it was written by a newer version of the agent (schema version %d, this agent knows %d); "+
			"run that version, or move the file away", have, version)
	}
	return errors.New("it is not a dead-letter store; move the file away")
}

// header returns the application id and the version of a file; both are 0 for a new one.
func header(ctx context.Context, db *sql.DB) (id, have int, err error) {
	err = db.QueryRowContext(ctx,
		`SELECT application_id, user_version FROM pragma_application_id, pragma_user_version`).Scan(&id, &have)
	return id, have, err
}

// migrate creates the tables of a new file, and migrates a file of an earlier version. It refuses files of another
// kind.
func migrate(ctx context.Context, db *sql.DB) error {
	id, have, err := header(ctx, db)
	if err != nil {
		return err
	}
	script := schema + fmt.Sprintf("; PRAGMA application_id = %d;", applicationID)
	if id != 0 || have != 0 {
		if err := identify(id, have); err != nil || have == version {
			return err
		}
		script = ""
		for ; have < version; have++ {
			script += migrations[have]
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, script+fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// transact performs do in a transaction, completely or not at all. It does not stop when ctx ends, because the outcome
// must be known.
func transact(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // err is the more important error
		return err
	}
	return tx.Commit()
}

// change performs do in a transaction and notifies.
func (s *Store) change(ctx context.Context, do func(tx *sql.Tx) error) error {
	err := s.use(ctx, func(db *sql.DB) error { return transact(ctx, db, do) })
	if err == nil {
		s.changed()
	}
	return err
}

// changed notifies the followers of the store.
func (s *Store) changed() {
	if s.Changed != nil {
		s.Changed()
	}
}

// Close writes the pending dead letters and closes the store.
func (s *Store) Close() error {
	err := s.Flush(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return err
	}
	if s.failed {
		err = errors.Join(err, sqlitefile.RewriteLog(s.Path))
	}
	err = errors.Join(err, s.db.Close())
	s.db = nil
	sqlitefile.WarnOfLog(s.Log.With("component", "dead-letters"), s.Path)
	return err
}

// Totals returns the totals by pipeline id.
func (s *Store) Totals(ctx context.Context) ([]spec.DeadLetterTotals, error) {
	if err := s.Flush(ctx); err != nil {
		return nil, err
	}
	all := []spec.DeadLetterTotals{}
	if !exists(s.Path) {
		return all, nil
	}
	err := s.use(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT pipeline_id, count, bytes, dropped FROM totals ORDER BY pipeline_id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t spec.DeadLetterTotals
			if err := rows.Scan(&t.PipelineID, &t.Count, &t.Bytes, &t.Dropped); err != nil {
				return err
			}
			all = append(all, t)
		}
		return rows.Err()
	})
	return all, err
}

func nanos(t time.Time) int64 { return t.UnixNano() }

func fromNanos(n int64) time.Time { return time.Unix(0, n).UTC() }
