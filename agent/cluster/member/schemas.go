package member

import (
	"strings"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// Schemas returns the registry that all members of a cluster share, with copies in own. It is unusable until New has
// completed it.
func Schemas(c config.Cluster, own schema.IDRegistry) schema.Registry {
	return &cluster.SchemaRegistry{Local: own, Cluster: c.Name}
}

// sharesSubject reports whether a schema belongs to the cluster. Schemas of connectors of local pipelines stay with
// this agent.
func (m *Member) sharesSubject(subject string) bool {
	pipeline, _, ok := strings.Cut(subject, ":")
	return !ok || m.clustered(pipeline)
}
