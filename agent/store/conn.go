package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/mattn/go-sqlite3"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// readers is the maximum number of concurrent reading connections.
const readers = 4

// Settings for every connection are in the DSN. The writer also has secure_delete, which overwrites deleted data. A
// PRAGMA through a pool would reach only one connection, and the driver's default for synchronous loses commits in a
// power failure.
const (
	commonDSN = "_synchronous=FULL&_foreign_keys=on&_busy_timeout=5000&_stmt_cache_size=64"
	writerDSN = "mode=rw&_journal_mode=WAL&_txlock=immediate&_secure_delete=on&" + commonDSN
	readerDSN = "mode=ro&_query_only=1&" + commonDSN
)

// pools holds the connections to one store: one writer and some readers.
type pools struct {
	writer, reader *sql.DB // writer is nil while the file is read-only
	files          []openFile
}

// openPools returns connections to the store at path.
func openPools(path string) *pools {
	p := &pools{writer: openWriter(path)}
	p.reader = openReader(path, p.inPlace)
	return p
}

// close marks the file as closed, writes the log back into it and closes the connections. If the mark cannot be saved,
// the log stays and the file counts as open.
func (p *pools) close(ctx context.Context) error {
	if p.writer == nil {
		return p.reader.Close()
	}
	if err := sqlitefile.End(ctx, p.writer); err != nil {
		return errors.Join(err, p.abandon())
	}
	return errors.Join(p.reader.Close(), p.writer.Close())
}

// abandon closes the connections and leaves the file and its log unchanged, because data that may be missing in the log
// must not be written back. The last connection to close would write it back, unless it is read-only.
func (p *pools) abandon() error {
	if p.writer == nil {
		return p.reader.Close()
	}
	err := p.reader.PingContext(context.Background()) // makes sure that a reader is open
	return errors.Join(err, p.writer.Close(), p.reader.Close())
}

func openWriter(path string) *sql.DB {
	db := sql.OpenDB(&connector{dsn: dsn(path, writerDSN)})
	db.SetMaxOpenConns(1)
	return db
}

// openReader returns reading connections. A connection that is opened later, while allowed returns an error, might find
// another file than the others have, or none.
func openReader(path string, allowed func() error) *sql.DB {
	db := sql.OpenDB(&connector{dsn: dsn(path, readerDSN), allowed: allowed})
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return db
}

func dsn(path, params string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + params
}

// connector opens connections and verifies their pragmas.
type connector struct {
	dsn     string
	allowed func() error // called before a connection is opened; nil: always allowed
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// Connect implements driver.Connector.
func (c *connector) Connect(context.Context) (driver.Conn, error) {
	if c.allowed != nil {
		if err := c.allowed(); err != nil {
			return nil, err
		}
	}
	conn, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	if err := checkSettings(conn.(*sqlite3.SQLiteConn)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func checkSettings(conn *sqlite3.SQLiteConn) error {
	for _, want := range []struct{ pragma, value string }{
		{"synchronous", "2"}, {"journal_mode", "wal"}, {"foreign_keys", "1"},
	} {
		got, err := pragma(conn, want.pragma)
		if err != nil {
			return err
		}
		if got != want.value {
			return fmt.Errorf("cannot make commits durable: PRAGMA %s is %q, not %q", want.pragma, got, want.value)
		}
	}
	return nil
}

func pragma(conn *sqlite3.SQLiteConn, name string) (string, error) {
	rows, err := conn.Query("PRAGMA "+name, nil)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	row := make([]driver.Value, 1)
	if err := rows.Next(row); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return fmt.Sprint(row[0]), nil
}
