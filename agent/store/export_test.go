package store

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// CreateAt creates a store that has only the first n migrations.
func CreateAt(ctx context.Context, path string, n int) error {
	if err := createFile(ctx, path, time.Now); err != nil {
		return err
	}
	writer := openWriter(path)
	defer writer.Close()
	names := migrationNames()
	for i := len(names) - 1; i >= n; i-- {
		if err := undo(ctx, writer, names[i]); err != nil {
			return err
		}
	}
	return nil
}

func undo(ctx context.Context, writer *sql.DB, name string) error {
	script, err := fs.ReadFile(migrationFiles, "migrations/"+name+".sql")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(script)) {
		if table, ok := strings.CutPrefix(line, "CREATE TABLE "); ok {
			if _, err := writer.ExecContext(ctx,
				"PRAGMA foreign_keys = off; DROP TABLE "+strings.Fields(table)[0]); err != nil {
				return err
			}
		}
		if words := strings.Fields(line); strings.HasPrefix(line, "ALTER TABLE") {
			if _, err := writer.ExecContext(ctx, "ALTER TABLE "+words[2]+" DROP COLUMN "+words[5]); err != nil {
				return err
			}
		}
	}
	_, err = writer.ExecContext(ctx, "DELETE FROM migrations WHERE name = ?", name)
	return err
}

// MigrationNames returns the names of all migrations.
func MigrationNames() []string { return migrationNames() }

// Exec performs a statement behind the store's back.
func (db *DB) Exec(query string) error {
	_, err := db.pools.writer.Exec(query)
	return err
}

// Count returns the number of rows of a table.
func (db *DB) Count(table string) (n int, err error) {
	err = db.pools.reader.QueryRow("SELECT count(*) FROM " + table).Scan(&n)
	return n, err
}

// Schema returns the definitions of all tables and indexes.
func (db *DB) Schema() ([]string, error) {
	return queryAll(context.Background(), db.pools.reader, func(s scanner) (d string, err error) {
		return d, s.Scan(&d)
	},
		`SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name`)
}

// LimitPages lets the file grow by only n pages, until restore is called.
func (db *DB) LimitPages(n int) (restore func(), err error) {
	var pages int
	if err := db.pools.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		return nil, err
	}
	limit := func(n int) error { return db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)) }
	return func() { limit(1 << 30) }, limit(pages + n)
}

// Settings returns synchronous, journal_mode and foreign_keys of several connections of each pool, held open at the
// same time so that they are different ones.
func (db *DB) Settings(ctx context.Context) (all []string, err error) {
	for pool, n := range map[*sql.DB]int{db.pools.writer: 1, db.pools.reader: readers} {
		for range n {
			conn, err := pool.Conn(ctx)
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			var sync, fk int
			var mode string
			err = conn.QueryRowContext(ctx, `SELECT synchronous, journal_mode, foreign_keys
				FROM pragma_synchronous, pragma_journal_mode, pragma_foreign_keys`).Scan(&sync, &mode, &fk)
			if err != nil {
				return nil, err
			}
			all = append(all, fmt.Sprint(sync, " ", mode, " ", fk))
		}
	}
	return all, nil
}

// OpenRaw opens a connection with parameters that Open would not use.
func OpenRaw(path, params string) error {
	pool := sql.OpenDB(&connector{dsn: dsn(path, params)})
	defer pool.Close()
	return pool.Ping()
}

// Together commits the writes in one transaction and returns their errors.
func (db *DB) Together(writes ...func() error) []error {
	db.commits <- struct{}{}
	errs := make([]chan error, len(writes))
	for i, w := range writes {
		errs[i] = make(chan error, 1)
		go func() { errs[i] <- w() }()
	}
	for waiting := 0; waiting < len(writes); {
		db.queueMu.Lock()
		waiting = len(db.queue)
		db.queueMu.Unlock()
	}
	db.commitQueue()
	<-db.commits
	all := make([]error, len(writes))
	for i := range errs {
		all[i] = <-errs[i]
	}
	return all
}

// Pools identifies the connections in use.
func (db *DB) Pools() any { return db.pools }

// Distrust makes the next call open the file again, as after a disk error.
func (db *DB) Distrust() { db.discard(db.pools, false) }

// HoldReaders takes all open reading connections, so that the next reader needs another one.
func (db *DB) HoldReaders() (release func(), err error) {
	var held []*sql.Conn
	release = func() {
		for _, c := range held {
			c.Close()
		}
	}
	for db.pools.reader.Stats().Idle > 0 {
		c, err := db.pools.reader.Conn(context.Background())
		if err != nil {
			return release, err
		}
		held = append(held, c)
	}
	return release, nil
}

// KeepAnswersBytes limits the bytes of stored answers until restore is called.
func KeepAnswersBytes(n int) (restore func()) {
	old := keepAnswersBytes
	keepAnswersBytes = n
	return func() { keepAnswersBytes = old }
}

// KeepAnswers limits the number of stored answers until restore is called.
func KeepAnswers(n int) (restore func()) {
	old := keepAnswers
	keepAnswers = n
	return func() { keepAnswers = old }
}

// PlaceInterval is the interval of the checks of Guard.
const PlaceInterval = placeInterval
