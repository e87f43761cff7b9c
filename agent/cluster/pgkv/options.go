// Package pgkv keeps the sessions and claims of a cluster in a PostgreSQL table with one row per key. A row changes
// only by compare-and-swap, in a single statement, so a pooler that shares sessions between transactions does no harm.
// The clock of the server decides which rows have expired.
package pgkv

import (
	"log/slog"
	"strings"
)

// Options configures the connection to PostgreSQL.
type Options struct {
	URL     string // of a database; the first schema in its search_path is used
	Cluster string // cluster name
	// Password, when set, replaces the password in URL. It is called for each session.
	Password func() (string, error)
	Log      *slog.Logger
}

// UnfitError reports that a table or a server does not guarantee the properties that claims require.
type UnfitError struct{ Wrong []string }

// Error lists the problems.
func (u *UnfitError) Error() string {
	return "PostgreSQL cannot keep the claims of the cluster: " + strings.Join(u.Wrong, "; ")
}
