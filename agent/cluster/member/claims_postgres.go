//go:build !minimal && !no_cluster && !no_postgres

package member

import (
	"log/slog"

	"github.com/conduit-agent/conduit/agent/access"
	"github.com/conduit-agent/conduit/agent/cluster/pgkv"
	"github.com/conduit-agent/conduit/agent/config"
)

func openPostgres(c config.Cluster, log *slog.Logger) (claimStore, error) {
	o := pgkv.Options{URL: c.Postgres.URL, Cluster: c.Name, Log: log}
	if file := c.Postgres.PasswordFile; file != "" {
		const setting = "cluster.postgres.password-file"
		if _, err := access.Token(log, setting, file); err != nil {
			return claimStore{}, err
		}
		o.Password = func() (string, error) { return access.Token(slog.New(slog.DiscardHandler), setting, file) }
	}
	s, err := pgkv.Open(o)
	if err != nil {
		return claimStore{}, err
	}
	return claimStore{s, "PostgreSQL", s.Ready}, nil
}
