package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/config"
)

// doctorDialTimeout is how long a server of the cluster's store may take to answer.
const doctorDialTimeout = 3 * time.Second

// examineCluster checks that the store of the cluster can be used. contained is what this binary has of clusters.
func examineCluster(ctx context.Context, c config.Cluster, contained *clustering.Cluster) Finding {
	configured := c.Name != "" || c.NATS.URL != "" || c.Postgres.URL != ""
	switch {
	case !configured, c.Name == "" && contained != nil:
		return finding("cluster", OK, "", "the agent is not in a cluster")
	case contained == nil:
		return finding(
			"cluster", Error,
			"remove cluster.* from the settings, or use the full binary, conduit: with cluster.name the agent does "+
				"not start",
			"this binary does not support clusters",
		)
	}
	ctx, cancel := context.WithTimeout(ctx, doctorDialTimeout)
	defer cancel()
	product, err := contained.Check(ctx, c)
	switch {
	case product == "":
		return finding("cluster", Error, "correct cluster.* in the settings: the agent does not start", "%s: %v",
			c.Name, err)
	case err != nil:
		return finding(
			"cluster", Error,
			fmt.Sprintf("start or repair the %s server, or correct its address: until then no pipeline of the "+
				"cluster is claimed", product),
			"%s: %v", c.Name, err,
		)
	}
	return finding("cluster", OK, "", "%s: %s is usable", c.Name, product)
}
