// Package builtin lists the connectors that are compiled into the agent. They use only package sdk, like any other
// connector.
//
// A connector with a client library can be excluded from a build: the tag no_NAME excludes a single one, and minimal
// excludes all. Such a connector has two files here, with_NAME.go and without_NAME.go, and a line in With.
package builtin

import (
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/builtin/spool"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/sorting"
)

// All returns the built-in connectors, sorted by name. exec is disabled.
func All() []sdk.Connector { return With(exec.Options{}) }

// With returns the built-in connectors, sorted by name. o configures exec.
func With(o exec.Options) []sdk.Connector {
	all := slices.Concat(
		[]sdk.Connector{exec.Connector(o), file.Connector(), generator.Connector(), log.Connector(), spool.Connector()},
		withHTTP(),
		withJournald(),
		withKafka(),
		withMQTT(),
		withMySQL(),
		withNATS(),
		withPostgres(),
		withRedis(),
		withS3(),
		withSQLite(),
		withSyslog(),
	)
	sorting.By(all, func(a, b sdk.Connector) int { return strings.Compare(a.Name, b.Name) })
	return all
}
