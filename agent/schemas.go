package agent

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// schemaRegistry returns the registry of schemas: stored, unless the settings name another, or a cluster.
func schemaRegistry(o Options, stored schema.IDRegistry) (schema.Registry, error) {
	c := o.Config.Schemas
	switch {
	case c.Type != "confluent" && o.Config.Cluster.Name != "" && o.Cluster != nil:
		return o.Cluster.Schemas(o.Config.Cluster, stored), nil
	case c.Type != "confluent":
		return stored, nil
	}
	r, err := schema.NewConfluentRegistry(c.Confluent.ConnectionString)
	if err != nil {
		return nil, fmt.Errorf("cannot use schema-registry.confluent.connection-string: %w", err)
	}
	switch auth := c.Confluent.Auth; auth.Type {
	case "basic":
		r.Username, r.Password = auth.Basic.Username, auth.Basic.Password
	case "bearer":
		r.Token = auth.Bearer.Token
	}
	return r, nil
}
