package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// databaseSettings are embedded in the settings of source and destination.
type databaseSettings struct {
	// Database file. It must be on a local disk, because locks on network file systems are unreliable.
	Path string `json:"path" literal:"true" validate:"required"`
	// Maximum time to wait for other writers of the database.
	Timeout time.Duration `json:"timeout" default:"5s" validate:"gt=0"`
}

// Check returns an error if settings may not name the file.
func (s *databaseSettings) Check(ctx context.Context) error {
	return sdk.CheckPath(ctx, "path", s.Path)
}

// Open opens the file with connections that sync their commits. With create it creates a missing file, with a
// write-ahead log; otherwise the file must exist.
func (s *databaseSettings) Open(ctx context.Context, create bool) (*sql.DB, error) {
	info, err := os.Stat(s.Path)
	absent := errors.Is(err, fs.ErrNotExist)
	if err == nil && !info.Mode().IsRegular() { // a device may have no end
		return nil, fmt.Errorf("cannot open the database %s: it is not a regular file", s.Path)
	}
	if absent && !create {
		return nil, fmt.Errorf("cannot open the database %s: %w", s.Path, err)
	}
	mode := "rw"
	if create {
		mode = "rwc"
	}
	dsn := fmt.Sprintf("file:%s?mode=%s&_busy_timeout=%d&_synchronous=FULL&_foreign_keys=on",
		(&url.URL{Path: s.Path}).EscapedPath(), mode, s.Timeout.Milliseconds())
	db := sql.OpenDB(&connector{dsn: dsn, allow: sdk.EnvFrom(ctx).AllowPath, most: sdk.Budget(ctx)})
	db.SetMaxOpenConns(1)
	first := "SELECT count(*) FROM sqlite_schema" // reads the file, so that an invalid one fails here
	if absent {
		first = "PRAGMA journal_mode = WAL"
	}
	if _, err := db.ExecContext(ctx, first); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot open the database %s: %w", s.Path, err)
	}
	return db, nil
}

// connector opens connections that can access no other file.
type connector struct {
	dsn   string
	allow func(path string) error // nil: every file
	most  int                     // maximum bytes of a value or row
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// Connect implements driver.Connector.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	opened, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	conn := opened.(*sqlite3.SQLiteConn)
	conn.SetLimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
	conn.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, c.most)
	conn.RegisterAuthorizer(authorize)
	if c.allow != nil { // a link may lead to another file than the setting says: SQLite has followed it
		if err := c.allow(conn.GetFilename("main")); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// processWide lists the pragmas that limit SQLite's memory in the whole process, or set its directory for temporary
// files: the store of the agent uses SQLite, too.
var processWide = []string{"hard_heap_limit", "soft_heap_limit", "mmap_size", "cache_size", "temp_store",
	"temp_store_directory", "data_store_directory"}

// authorize refuses pragmas with effects outside the database.
func authorize(op int, name, _, _ string) int {
	if op == sqlite3.SQLITE_PRAGMA && slices.Contains(processWide, strings.ToLower(name)) {
		return sqlite3.SQLITE_DENY
	}
	return sqlite3.SQLITE_OK
}

// Limits of the SQL in a setting: bytes of a value, and columns, which are in memory at the same time.
const (
	setupLength  = 1 << 20
	setupColumns = 500
)

// setupDatabase runs the SQL of a setting within timeout.
func setupDatabase(ctx context.Context, db *sql.DB, text string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("it took longer than %v (setup.timeout)", timeout))
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	limit := func(length, columns int) (lengthBefore, columnsBefore int, err error) {
		err = conn.Raw(func(c any) error {
			own := c.(*sqlite3.SQLiteConn)
			lengthBefore, columnsBefore = own.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, length),
				own.SetLimit(sqlite3.SQLITE_LIMIT_COLUMN, columns)
			return nil
		})
		return lengthBefore, columnsBefore, err
	}
	length, columns, err := limit(setupLength, setupColumns)
	if err != nil {
		return err
	}
	if _, err = conn.ExecContext(ctx, text); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	_, _, err = limit(length, columns)
	return err
}

// Quote returns name as a quoted SQL identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// errMoved is the error when the path leads to another file than the open one, or to none.
var errMoved = errors.New("the file was removed or replaced while it was open")

// Transient reports whether err concerns the file or its disk rather than the content, so that a retry may help.
func Transient(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, errMoved)
	}
	switch e.Code {
	case sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrIoErr, sqlite3.ErrCantOpen, sqlite3.ErrFull,
		sqlite3.ErrProtocol, sqlite3.ErrNomem,
		sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrSchema:
		return true
	}
	return false
}

// Refused reports whether err concerns a value, or the table for it.
func Refused(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case sqlite3.ErrError, sqlite3.ErrConstraint, sqlite3.ErrMismatch, sqlite3.ErrTooBig, sqlite3.ErrRange:
		return true
	}
	return false
}
