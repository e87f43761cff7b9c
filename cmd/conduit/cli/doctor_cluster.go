package cli

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
)

// doctorDialTimeout is how long a server of the cluster's store may take to answer.
const doctorDialTimeout = 3 * time.Second

// errNoPostgres is the reason why a build without PostgreSQL cannot be a member of a cluster there.
var errNoPostgres = errors.New("this build keeps no claims in PostgreSQL: it was built with -tags no_postgres")

// examineCluster checks that a server of the cluster's store can be reached. absent is the reason why an agent of this
// build cannot be a member of a cluster, nil if it can.
func examineCluster(ctx context.Context, c config.Cluster, absent error) Finding {
	switch {
	case absent != nil && (c.Name != "" || c.NATS.URL != "" || c.Postgres.URL != ""):
		return finding(
			"cluster", Error,
			"remove cluster.* from the settings, or use a build with clusters: with cluster.name the agent does not start",
			"%v", absent,
		)
	case c.Name == "":
		return finding("cluster", OK, "", "the agent is no member of one")
	}
	ctx, cancel := context.WithTimeout(ctx, doctorDialTimeout)
	defer cancel()
	if c.Postgres.URL != "" {
		switch err := checkPostgres(ctx, c); {
		case errors.Is(err, errNoPostgres):
			return finding("cluster", Error, "use another build, or NATS: the agent does not start", "%s: %v", c.Name, err)
		case err != nil:
			return finding(
				"cluster", Error,
				"start or mend the PostgreSQL server, or correct cluster.postgres.url: until then no pipeline of the cluster is claimed",
				"%s: %v", c.Name, err,
			)
		}
		return finding("cluster", OK, "", "%s: PostgreSQL can keep its claims", c.Name)
	}
	var last error
	for server := range strings.SplitSeq(c.NATS.URL, ",") {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", natsAddress(strings.TrimSpace(server)))
		if err == nil {
			_ = conn.Close()
			return finding("cluster", OK, "", "%s: %s can be reached", c.Name, conn.RemoteAddr())
		}
		last = err
	}
	return finding(
		"cluster", Error,
		"start the NATS server, or correct cluster.nats.url: until then no pipeline of the cluster is claimed",
		"%s: no server can be reached: %v", c.Name, last,
	)
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
