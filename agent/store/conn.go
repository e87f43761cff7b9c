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

// readers is the number of connections that read at the same time.
const readers = 4

// Settings that hold for every connection are in the DSN, with secure_delete for the one that
// writes, which overwrites what is deleted. A PRAGMA sent through a pool would
// reach only one connection, and the driver's own default of synchronous loses
// commits when the power fails.
const (
	commonDSN = "_synchronous=FULL&_foreign_keys=on&_busy_timeout=5000&_stmt_cache_size=64"
	writerDSN = "mode=rw&_journal_mode=WAL&_txlock=immediate&_secure_delete=on&" + commonDSN
	readerDSN = "mode=ro&_query_only=1&" + commonDSN
)

// pools are the connections to one store: one that writes, some that read.
type pools struct {
	writer, reader *sql.DB // writer is nil while the file can only be read
	files          []openFile
}

// openPools returns connections to the store at path.
func openPools(path string) *pools {
	p := &pools{writer: openWriter(path)}
	p.reader = openReader(path, p.inPlace)
	return p
}

// close marks the file as closed, writes the log back into it and closes the connections. When the mark cannot
// be saved the log stays: the file counts as open.
func (p *pools) close(ctx context.Context) error {
	if p.writer == nil {
		return p.reader.Close()
	}
	if err := sqlitefile.End(ctx, p.writer); err != nil {
		return errors.Join(err, p.abandon())
	}
	return errors.Join(p.reader.Close(), p.writer.Close())
}

// abandon closes the connections and leaves the file and its log as they are: what is not certain to
// be in the log must not be written back. The connection that is closed last would do that, unless it only reads.
func (p *pools) abandon() error {
	if p.writer == nil {
		return p.reader.Close()
	}
	err := p.reader.PingContext(context.Background()) // there is one
	return errors.Join(err, p.writer.Close(), p.reader.Close())
}

func openWriter(path string) *sql.DB {
	db := sql.OpenDB(&connector{dsn: dsn(path, writerDSN)})
	db.SetMaxOpenConns(1)
	return db
}

// openReader returns connections that read. One that is opened later, when allowed returns
// an error, might find another file than the others have, or none.
func openReader(path string, allowed func() error) *sql.DB {
	db := sql.OpenDB(&connector{dsn: dsn(path, readerDSN), allowed: allowed})
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return db
}

func dsn(path, params string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + params
}

// connector opens connections and checks that they have the pragmas that were asked for.
type connector struct {
	dsn     string
	allowed func() error // asked before; nil: always
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
