package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// conduitTable is the table in which Conduit keeps its state.
const conduitTable = "conduit_kv_store"

// errConduit reports that a file or directory contains the state of Conduit.
var errConduit = errors.New("it is the state of a Conduit")

// rejectConduitDirectory returns an Err if Conduit keeps its state in the directory, in a SQLite file or a badger
// database.
func rejectConduitDirectory(path string) error {
	if inner := filepath.Join(path, "conduit.db"); isFile(inner) {
		return rejectConduit(path, "conduit migrate --from "+inner)
	}
	if isFile(filepath.Join(path, "MANIFEST")) || isFile(filepath.Join(path, "KEYREGISTRY")) {
		return rejectConduit(path, "conduit migrate --from http://localhost:8080 --files DIR, while that Conduit "+
			"serves its API there")
	}
	return nil
}

// rejectConduitDatabase returns an Err if the SQLite file at path belongs to Conduit. It opens the file as immutable,
// and changes nothing.
func rejectConduitDatabase(path string) error {
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return nil //nolint:nilerr // a file that cannot be opened is no store of Conduit
	}
	defer db.Close()
	var n int
	if db.QueryRowContext(context.Background(), "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?",
		conduitTable).Scan(&n) != nil || n == 0 {
		return nil
	}
	return rejectConduit(path, "conduit migrate --from "+path)
}

func rejectConduit(path, command string) error {
	return fmt.Errorf("%w, which is not changed: set db.sqlite.path to another file than %s, and take the state over "+
		"with: %s", errConduit, path, command)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
