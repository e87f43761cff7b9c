//go:build minimal

package cli

import (
	"github.com/peterbourgon/ff/v3/ffcli"
)

// monitoringCommands returns no commands: another build prints the dashboard and the alert rules, which are
// the same.
func monitoringCommands(*Program) []*ffcli.Command { return nil }
