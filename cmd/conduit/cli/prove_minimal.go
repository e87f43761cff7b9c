//go:build minimal

package cli

import (
	"github.com/peterbourgon/ff/v3/ffcli"
)

// StandIn returns false: nothing starts a process of this build as a connector.
func StandIn() bool { return false }

// proveCommands returns no command: another build proves the same agent.
func proveCommands(*Program) []*ffcli.Command { return nil }
