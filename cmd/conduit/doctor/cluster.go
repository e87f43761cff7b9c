package doctor

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"
)

// dialTimeout is how long a server of the cluster's store may take to answer.
const dialTimeout = 3 * time.Second

// errNoPostgres is why a build without PostgreSQL cannot be a member of a cluster there.
var errNoPostgres = errors.New("this build keeps no claims in PostgreSQL: it was built with -tags no_postgres")

// cluster checks that a server of the cluster's store can be reached.
func (e *examination) cluster(ctx context.Context) {
	c := e.config.Cluster
	absent := e.absent()
	switch {
	case absent != nil && (c.Name != "" || c.NATS.URL != "" || c.Postgres.URL != ""):
		e.add("cluster", Error, "remove cluster.* from the settings, or use a build with clusters: with cluster.name the agent does not start", "%v", absent)
		return
	case c.Name == "":
		e.add("cluster", OK, "", "the agent is no member of one")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.Postgres.URL != "" {
		switch err := checkPostgres(ctx, c); {
		case errors.Is(err, errNoPostgres):
			e.add("cluster", Error, "use another build, or NATS: the agent does not start", "%s: %v", c.Name, err)
			return
		case err != nil:
			e.add("cluster", Error, "start or mend the PostgreSQL server, or correct cluster.postgres.url: until then no pipeline of the cluster is claimed", "%s: %v", c.Name, err)
			return
		}
		e.add("cluster", OK, "", "%s: PostgreSQL can keep its claims", c.Name)
		return
	}
	var last error
	for server := range strings.SplitSeq(c.NATS.URL, ",") {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", natsAddress(strings.TrimSpace(server)))
		if err == nil {
			_ = conn.Close()
			e.add("cluster", OK, "", "%s: %s can be reached", c.Name, conn.RemoteAddr())
			return
		}
		last = err
	}
	e.add("cluster", Error, "start the NATS server, or correct cluster.nats.url: until then no pipeline of the cluster is claimed", "%s: no server can be reached: %v", c.Name, last)
}

// natsAddress returns the host and port of a server's URL, without what lets in.
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
