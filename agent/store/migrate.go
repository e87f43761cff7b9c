package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationNames returns the migrations that this binary knows, in order.
func migrationNames() []string {
	files, _ := fs.Glob(migrationFiles, "migrations/*.sql") // the pattern is well-formed
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(f, "migrations/"), ".sql")
	}
	return names
}

// checkKnown refuses a store with migrations that this binary does not know.
func checkKnown(ctx context.Context, db *sql.DB) error {
	applied, err := appliedMigrations(ctx, db)
	if err != nil {
		return err
	}
	known := migrationNames()
	for _, name := range applied {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%w: it is at %q, this version knows up to %q; run the version that wrote it, or "+
				"restore a backup",
				ErrNewer, applied[len(applied)-1], known[len(known)-1])
		}
	}
	return nil
}

// migrate applies the missing migrations in one transaction.
func migrate(ctx context.Context, db *sql.DB, now func() time.Time) error {
	const create = `CREATE TABLE IF NOT EXISTS migrations (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT ` +
		`NULL) STRICT`
	if _, err := db.ExecContext(ctx, create); err != nil {
		return err
	}
	applied, err := appliedMigrations(ctx, db)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(migrationNames(), func(name string) bool { return slices.Contains(applied, name) })
	if len(missing) == 0 {
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, name := range missing {
		if err := migrateOne(ctx, tx, name, now()); err != nil {
			return errors.Join(fmt.Errorf("cannot migrate to %q: %w", name, err), tx.Rollback())
		}
	}
	return tx.Commit()
}

func migrateOne(ctx context.Context, tx *sql.Tx, name string, now time.Time) error {
	script, err := migrationFiles.ReadFile("migrations/" + name + ".sql")
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, string(script)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO migrations (name, applied_at) VALUES (?, ?)`, name, now.UnixNano())
	return err
}

func appliedMigrations(ctx context.Context, db *sql.DB) ([]string, error) {
	return queryAll(ctx, db, func(s scanner) (name string, err error) { return name, s.Scan(&name) },
		`SELECT name FROM migrations ORDER BY name`)
}
