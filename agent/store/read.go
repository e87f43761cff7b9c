package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
)

// ReadConduit returns the entries, by key, of the SQLite file at path in which Conduit keeps its state. It changes
// nothing, and fails while Conduit has the file open for writing.
func ReadConduit(ctx context.Context, path string) (map[string][]byte, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("cannot read the state of a Conduit: %w", err)
	}
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_busy_timeout=5000")
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT key, value FROM "+conduitTable)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s as the state of a Conduit: %w", path, err)
	}
	defer rows.Close()
	all := map[string][]byte{}
	for rows.Next() {
		var key string
		var value []byte
		if err := rows.Scan(&key, &value); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		all[key] = value
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return all, nil
}
