//go:build minimal

package monitoring

import (
	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// Commands returns no commands: another build prints the dashboard and the alert rules, which are
// the same.
func Commands(*cli.Program) []*ffcli.Command { return nil }
