//go:build minimal || no_postgres

package doctor

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/agent/config"
)

// checkPostgres fails: no agent of this build keeps claims in PostgreSQL.
func checkPostgres(context.Context, config.Cluster) error {
	return errors.New("this build has no PostgreSQL: it was built with -tags minimal or no_postgres")
}
