//go:build minimal

// Package cluster stands for the commands 'conduit cluster ...'.
package cluster

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// Commands returns no command: an agent of this build is a member of no cluster.
func Commands(*cli.Program) []*ffcli.Command { return nil }
