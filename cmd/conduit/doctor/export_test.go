package doctor

import (
	"context"

	"github.com/conduit-agent/conduit/agent/config"
)

// Cluster returns what the check of the cluster finds, in a build that is without clusters for a reason.
func Cluster(ctx context.Context, c config.Cluster, absent error) []Finding {
	e := &examination{config: config.Config{Cluster: c}, absent: func() error { return absent }}
	e.cluster(ctx)
	return e.findings
}
