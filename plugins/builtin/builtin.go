// Package builtin lists the connectors that are compiled into the agent. They are
// ordinary connectors, written against package sdk like any other.
package builtin

import (
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/builtin/spool"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// All returns the built-in connectors, in the order of their names.
func All() []sdk.Connector {
	return []sdk.Connector{file.Connector(), generator.Connector(), log.Connector(), spool.Connector()}
}
