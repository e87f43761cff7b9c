//go:build !minimal && !no_cluster

package member

import (
	"context"
	"errors"
	"log/slog"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/natskv"
	"github.com/conduit-agent/conduit/agent/config"
)

// claimStore is the store of the sessions and claims of a cluster.
type claimStore struct {
	cluster.Store
	product string                          // product name, informational
	ready   func(ctx context.Context) error // prepares the store, once it answers
}

// openClaims opens the store named in the settings.
func openClaims(c config.Cluster, member string, log *slog.Logger) (claimStore, error) {
	switch {
	case c.NATS.URL != "" && c.Postgres.URL != "":
		return claimStore{}, errors.New("cluster.nats.url and cluster.postgres.url are both set: a cluster has one store, so remove one of them")
	case c.NATS.URL != "":
		o := natskv.Options{
			URL: c.NATS.URL, Cluster: c.Name, Replicas: c.NATS.Replicas, Name: member, Log: log,
			Credentials: c.NATS.CredentialsFile, NKey: c.NATS.NKeyFile, CA: c.NATS.TLS.CAFile, Certificate: c.NATS.TLS.CertFile, Key: c.NATS.TLS.KeyFile,
		}
		s, err := natskv.Open(o)
		return claimStore{s, "NATS", func(ctx context.Context) error { return s.Ready(ctx, o) }}, err
	case c.Postgres.URL != "":
		return openPostgres(c, log)
	}
	return claimStore{}, errors.New("cluster.name is set, and neither cluster.nats.url nor cluster.postgres.url is: members of a cluster need the address of a store")
}
