//go:build minimal

package cli

import (
	"github.com/peterbourgon/ff/v3/ffcli"
)

// initCommands returns no command: another build writes the same plugins.
func initCommands(*Program) []*ffcli.Command { return nil }
