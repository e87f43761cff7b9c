package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// foreignTable is the table in which Conduit keeps its state.
const foreignTable = "conduit_kv_store"

// foreignDirectory returns an ErrForeign when the directory is one in which Conduit keeps
// its state: with a SQLite file, or a badger database.
func foreignDirectory(path string) error {
	if inner := filepath.Join(path, "conduit.db"); fileExists(inner) {
		return foreign(path, "conduit migrate --from "+inner)
	}
	if fileExists(filepath.Join(path, "MANIFEST")) || fileExists(filepath.Join(path, "KEYREGISTRY")) {
		return foreign(path, "conduit migrate --from http://localhost:8080 --files DIR, while that Conduit serves its API there")
	}
	return nil
}

// foreignDatabase returns an ErrForeign when the SQLite file at path is Conduit's. It
// changes nothing: the file is opened as one that does not change.
func foreignDatabase(path string) error {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return nil //nolint:nilerr // what cannot be opened is no store of Conduit
	}
	defer db.Close()
	var n int
	if db.QueryRowContext(context.Background(), "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", foreignTable).Scan(&n) != nil || n == 0 {
		return nil
	}
	return foreign(path, "conduit migrate --from "+path)
}

func foreign(path, command string) error {
	return fmt.Errorf("%w, which is left as it is: give db.sqlite.path another name than %s, and take the state over with: %s", ErrForeign, path, command)
}

func fileExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
