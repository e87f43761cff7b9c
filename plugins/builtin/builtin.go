// Package builtin lists the connectors that are compiled into the agent. They are
// ordinary connectors, written against package sdk like any other.
//
// A connector that brings a client library can be left out of a build: the tag no_NAME leaves
// one out, minimal all of them. Such a connector has two files here, with_NAME.go and
// without_NAME.go, and a line in All.
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

// All returns the built-in connectors, in the order of their names. exec is switched off.
func All() []sdk.Connector { return With(exec.Options{}) }

// With returns the built-in connectors, of which exec may do what the options say.
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
