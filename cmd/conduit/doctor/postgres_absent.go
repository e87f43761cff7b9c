//go:build minimal || no_cluster || no_postgres

package doctor

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/agent/config"
)

// checkPostgres fails: no agent of this build keeps claims in PostgreSQL.
func checkPostgres(context.Context, config.Cluster) error {
	return errors.New("this build keeps no claims in PostgreSQL: it was built with -tags minimal, no_cluster or no_postgres")
}
