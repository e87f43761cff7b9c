//go:build minimal

package cli

import (
	"github.com/peterbourgon/ff/v3/ffcli"
)

// migrateCommands returns no command: another build migrates pipelines for this one.
func migrateCommands(*Program) []*ffcli.Command { return nil }
