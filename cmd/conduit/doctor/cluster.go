package doctor

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"
)

// dialTimeout is how long a server of the cluster's store may take to answer.
const dialTimeout = 3 * time.Second

// cluster checks that a server of the cluster's store can be reached.
func (e *examination) cluster(ctx context.Context) {
	c := e.config.Cluster
	if c.Name == "" {
		e.add("cluster", OK, "", "the agent is no member of one")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.Postgres.URL != "" {
		if err := checkPostgres(ctx, c); err != nil {
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
