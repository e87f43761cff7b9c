//go:build !minimal && !no_cluster && !no_postgres

package cli

import (
	"context"
	"log/slog"
	"strings"

	"github.com/conduit-agent/conduit/agent/cluster/pgkv"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/reference"
)

// checkPostgres returns the reason why a PostgreSQL server cannot keep the claims of a cluster.
func checkPostgres(ctx context.Context, c config.Cluster) error {
	o := pgkv.Options{URL: c.Postgres.URL, Cluster: c.Name, Log: slog.New(slog.DiscardHandler)}
	if file := c.Postgres.PasswordFile; file != "" {
		o.Password = func() (string, error) {
			text, err := reference.ReadFile(file)
			return strings.TrimSpace(text), err
		}
	}
	s, err := pgkv.Open(o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Check(ctx)
}
