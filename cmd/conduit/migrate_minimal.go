//go:build minimal

package main

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// migrateCommands returns no command: another build takes over pipelines for this one.
func migrateCommands(*cli.Program) []*ffcli.Command { return nil }
