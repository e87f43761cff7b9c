//go:build minimal

package cli

import (
	"github.com/peterbourgon/ff/v3/ffcli"
)

// clusterCommands returns no command: an agent of this build is a member of no cluster.
func clusterCommands(*Program) []*ffcli.Command { return nil }
