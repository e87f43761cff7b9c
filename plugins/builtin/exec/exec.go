// Package exec is a connector that runs commands: its source makes records of the lines that a
// command prints, its destination hands records to a command as lines.
package exec

import (
	"context"
	"errors"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Options say what the connector may do.
type Options struct {
	// Enabled says whether commands are run. Otherwise every configuration is refused.
	Enabled bool
	// Env is the environment of the commands; nil: that of this process.
	Env []string
}

// Connector describes the source and the destination.
func Connector(o Options) sdk.Connector {
	c := sdk.Connector{
		Name:        "exec",
		Summary:     "Runs commands.",
		Description: "A source makes records of the lines that a command prints: text, JSON or Singer messages. A destination writes records to a command, one per line.",
		Version:     "v1.0.0",
		Author:      "conduit",

		NewSource:      func() sdk.Source { return &source{env: o.Env} },
		NewDestination: func() sdk.Destination { return &destination{env: o.Env} },
	}
	if !o.Enabled {
		c.NewSource = func() sdk.Source { return &disabledSource{} }
		c.NewDestination = func() sdk.Destination { return &disabledDestination{} }
	}
	return c
}

// ErrDisabled is how a connector that may run no commands refuses every configuration.
var ErrDisabled = errors.New("the connector exec is switched off: it lets everyone who can change a pipeline run commands as the agent's user. " +
	"Set connectors.exec.enabled to true in the configuration of the agent, and start it again")

// Check returns what is wrong with which command settings name, beyond what the description of the settings says.
func Check(settings map[string]string) error {
	c := commandSettings{Command: strings.TrimSpace(settings["command"]), Shell: strings.TrimSpace(settings["shell"])}
	_, err := c.args()
	return err
}

// disabledSource has the parameters of a source, and nothing else.
type disabledSource struct{ source }

// Configure refuses.
func (*disabledSource) Configure(context.Context, map[string]string) error { return ErrDisabled }

// Open refuses.
func (*disabledSource) Open(context.Context, record.Position) error { return ErrDisabled }

// disabledDestination has the parameters of a destination, and nothing else.
type disabledDestination struct{ destination }

// Configure refuses.
func (*disabledDestination) Configure(context.Context, map[string]string) error { return ErrDisabled }

// Open refuses.
func (*disabledDestination) Open(context.Context) error { return ErrDisabled }
