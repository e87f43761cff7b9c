package cli

import (
	"net/http"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/clustering"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/spec"
)

// Parts are the parts that a binary contains, as its main lists them. Everything else is in every binary.
type Parts struct {
	Plugins    catalog.Plugins
	References spec.ReferenceKinds
	Cluster    *clustering.Cluster
	// Profiles serves profiles of the agent; nil: there are none.
	Profiles http.Handler
	// Isolate returns the isolation of destinations; nil: there is none.
	Isolate func(runner.IsolationSetup) runner.Isolation
	// Exporter sends telemetry of the agent to a collector; nil: there is none.
	Exporter func(telemetry.ExporterSetup) (telemetry.Exporter, error)
	// ToolServer serves tools for language models in the agent; nil: there are none.
	ToolServer api.ToolServer
	// Site returns a function that returns the files of the documentation by name; nil: there is none.
	Site func(root *ffcli.Command, version string, usage func(*ffcli.Command) string) func() (map[string][]byte, error)
	// Docs returns 'conduit docs' for the files of the documentation. It is set with Site.
	Docs func(p *Program, site func() (map[string][]byte, error)) *ffcli.Command
	// Commands are the further commands of 'conduit', PluginCommands those of 'conduit plugins'.
	Commands, PluginCommands []func(*Program) *ffcli.Command
}
