//go:build minimal

// Package prove stands for the command 'conduit prove'.
package prove

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// StandIn returns false: nothing starts a process of this build as a connector.
func StandIn() bool { return false }

// Commands returns no command: another build proves the same agent.
func Commands(*cli.Program) []*ffcli.Command { return nil }
