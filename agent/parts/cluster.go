package parts

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/conduit-agent/conduit/agent/access"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/member"
	"github.com/conduit-agent/conduit/agent/cluster/natskv"
	"github.com/conduit-agent/conduit/agent/cluster/pgkv"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/config"
)

// Cluster returns clusters whose claims are in NATS or PostgreSQL.
func Cluster() *clustering.Cluster {
	return member.Cluster([]member.StoreKind{
		{
			Product: "NATS",
			Setting: "cluster.nats.url",
			URL:     func(c config.Cluster) string { return c.NATS.URL },
			Open:    openNATS,
			Check:   checkNATS,
		},
		{
			Product: "PostgreSQL",
			Setting: "cluster.postgres.url",
			URL:     func(c config.Cluster) string { return c.Postgres.URL },
			Open:    openPostgres,
			Check:   checkPostgres,
		},
	})
}

func openNATS(c config.Cluster, member string, log *slog.Logger) (cluster.Store, func(context.Context) error, error) {
	o := natskv.Options{
		URL: c.NATS.URL, Cluster: c.Name, Replicas: c.NATS.Replicas, Name: member, Log: log,
		Credentials: c.NATS.CredentialsFile, NKey: c.NATS.NKeyFile,
		CA: c.NATS.TLS.CAFile, Certificate: c.NATS.TLS.CertFile, Key: c.NATS.TLS.KeyFile,
	}
	s, err := natskv.Open(o)
	return s, func(ctx context.Context) error { return s.Ready(ctx, o) }, err
}

// checkNATS returns nil if one of the servers accepts connections.
func checkNATS(ctx context.Context, c config.Cluster) (err error) {
	for server := range strings.SplitSeq(c.NATS.URL, ",") {
		var conn net.Conn
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", natsAddress(strings.TrimSpace(server)))
		if err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("no server can be reached: %w", err)
}

// natsAddress returns the host and port of a server's URL, without credentials.
func natsAddress(server string) string {
	const port = "4222"
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		host, _, _ := strings.Cut(server, "/")
		u = &url.URL{Host: host}
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), port)
	}
	return u.Host
}

func openPostgres(c config.Cluster, _ string, log *slog.Logger) (cluster.Store, func(context.Context) error, error) {
	s, err := openPGKV(c, log)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Ready, nil
}

// checkPostgres returns nil if the server can hold the claims of the cluster.
func checkPostgres(ctx context.Context, c config.Cluster) error {
	s, err := openPGKV(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Check(ctx)
}

func openPGKV(c config.Cluster, log *slog.Logger) (*pgkv.Store, error) {
	o := pgkv.Options{URL: c.Postgres.URL, Cluster: c.Name, Log: log}
	if file := c.Postgres.PasswordFile; file != "" {
		const setting = "cluster.postgres.password-file"
		if _, err := access.Token(log, setting, file); err != nil {
			return nil, err
		}
		o.Password = func() (string, error) { return access.Token(slog.New(slog.DiscardHandler), setting, file) }
	}
	return pgkv.Open(o)
}
