//go:build minimal

package plugins

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// initCommands returns no command: another build writes the same plugins.
func initCommands(*cli.Program) []*ffcli.Command { return nil }
