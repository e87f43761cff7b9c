//go:build minimal || no_cluster || no_postgres

package cli

import (
	"context"

	"github.com/conduit-agent/conduit/agent/config"
)

// checkPostgres fails: no agent of this build keeps claims in PostgreSQL.
func checkPostgres(context.Context, config.Cluster) error { return errNoPostgres }
