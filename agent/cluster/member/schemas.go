//go:build !minimal && !no_cluster

package member

import (
	"strings"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// Schemas returns the schemas that all members of a cluster share, of which own has copies; own when the settings name no
// cluster. New completes it: until then it can be asked for nothing.
func Schemas(c config.Cluster, own schema.IDRegistry) schema.Registry {
	if c.Name == "" {
		return own
	}
	return &cluster.SchemaRegistry{Local: own, Cluster: c.Name}
}

// sharesSubject reports whether a schema is the cluster's: those of connectors of local pipelines stay with
// this agent.
func (m *Membership) sharesSubject(subject string) bool {
	pipeline, _, of := strings.Cut(subject, ":")
	return !of || m.clustered(pipeline)
}
