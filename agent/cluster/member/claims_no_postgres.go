//go:build !minimal && !no_cluster && no_postgres

package member

import (
	"errors"
	"log/slog"

	"github.com/conduit-agent/conduit/agent/config"
)

func openPostgres(config.Cluster, *slog.Logger) (claimStore, error) {
	return claimStore{}, errors.New("cluster.postgres.url is set, and this build has no PostgreSQL: it was built with -tags no_postgres; use another build, or NATS")
}
