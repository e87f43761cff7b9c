package agent

import (
	"fmt"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// schemaRegistry returns the registry of schemas: stored, unless the settings name another.
func schemaRegistry(c config.SchemaRegistry, stored schema.Registry) (schema.Registry, error) {
	if c.Type != "confluent" {
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
