// Package pgkv keeps the sessions and claims of a cluster in a table of PostgreSQL, one row for each
// key. A row changes by compare-and-swap only, in one statement of its own, so that a pooler that
// shares sessions between transactions does not matter. What is over is decided by the clock of the
// server.
package pgkv

import (
	"log/slog"
	"strings"
)

// Options say how to reach PostgreSQL.
type Options struct {
	URL     string // of a database: the schema is the first of its search_path
	Cluster string // name of the cluster
	// Password, when set, returns the one in place of that of the URL, and is called for each session.
	Password func() (string, error)
	Log      *slog.Logger
}

// UnfitError reports that a table or a server does not do what claims rest on.
type UnfitError struct{ Wrong []string }

// Error lists what is wrong.
func (u *UnfitError) Error() string {
	return "PostgreSQL cannot keep the claims of the cluster: " + strings.Join(u.Wrong, "; ")
}
