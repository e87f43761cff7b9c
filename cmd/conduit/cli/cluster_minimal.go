//go:build minimal

package cli

import (
	"github.com/peterbourgon/ff/v3/ffcli"
)

// clusterCommands returns no command: an agent of this build cannot be a member of a cluster.
func clusterCommands(*Program) []*ffcli.Command { return nil }
