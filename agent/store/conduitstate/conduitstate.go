// Package conduitstate recognises the state of a Conduit, and reads it. It never changes it.
package conduitstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// table is the one in which Conduit keeps its state.
const table = "conduit_kv_store"

// Err reports that something is the state of a Conduit.
var Err = errors.New("it is the state of a Conduit")

// Directory returns an Err when the directory is one in which Conduit keeps
// its state: with a SQLite file, or a badger database.
func Directory(path string) error {
	if inner := filepath.Join(path, "conduit.db"); isFile(inner) {
		return refuse(path, "conduit migrate --from "+inner)
	}
	if isFile(filepath.Join(path, "MANIFEST")) || isFile(filepath.Join(path, "KEYREGISTRY")) {
		return refuse(path, "conduit migrate --from http://localhost:8080 --files DIR, while that Conduit serves its API there")
	}
	return nil
}

// Database returns an Err when the SQLite file at path is Conduit's. It
// changes nothing: the file is opened as one that does not change.
func Database(path string) error {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return nil //nolint:nilerr // what cannot be opened is no store of Conduit
	}
	defer db.Close()
	var n int
	if db.QueryRowContext(context.Background(), "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", table).Scan(&n) != nil || n == 0 {
		return nil
	}
	return refuse(path, "conduit migrate --from "+path)
}

func refuse(path, command string) error {
	return fmt.Errorf("%w, which is left as it is: give db.sqlite.path another name than %s, and take the state over with: %s", Err, path, command)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
