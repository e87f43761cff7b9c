// Package exec is a connector that runs commands. Its source converts the output lines of a command to records; its
// destination passes records to a command as lines.
package exec

import (
	"context"
	"errors"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Options are the permissions of the connector.
type Options struct {
	// Enabled allows commands. If it is false, the connector refuses every configuration.
	Enabled bool
	// Env is the environment of the commands; nil: the environment of this process.
	Env []string
}

// Connector returns the connector with its source and destination.
func Connector(o Options) sdk.Connector {
	c := sdk.Connector{
		Name:    "exec",
		Summary: "Runs commands.",
		Description: "A source makes records of the lines that a command prints: text, JSON or Singer messages. A " +
			"destination writes records to a command, one per line.",
		Version: "v1.0.0",
		Author:  "conduit",

		NewSource:      func() sdk.Source { return &source{env: o.Env} },
		NewDestination: func() sdk.Destination { return &destination{env: o.Env} },
	}
	if !o.Enabled {
		c.NewSource = func() sdk.Source { return &disabledSource{} }
		c.NewDestination = func() sdk.Destination { return &disabledDestination{} }
	}
	return c
}

// ErrDisabled is the error for every configuration while commands are not allowed.
var ErrDisabled = errors.New("the connector exec is switched off: it lets everyone who can change a pipeline run " +
	"commands as the agent's user. " +
	"Set connectors.exec.enabled to true in the configuration of the agent, and start it again")

// Check validates the settings that name the command, beyond the validation rules of the parameters.
func Check(settings map[string]string) error {
	c := commandSettings{Command: strings.TrimSpace(settings["command"]), Shell: strings.TrimSpace(settings["shell"])}
	_, err := c.args()
	return err
}

// disabledSource has the parameters of a source and refuses to run.
type disabledSource struct{ source }

// Configure returns ErrDisabled.
func (*disabledSource) Configure(context.Context, map[string]string) error { return ErrDisabled }

// Open returns ErrDisabled.
func (*disabledSource) Open(context.Context, record.Position) error { return ErrDisabled }

// disabledDestination has the parameters of a destination and refuses to run.
type disabledDestination struct{ destination }

// Configure returns ErrDisabled.
func (*disabledDestination) Configure(context.Context, map[string]string) error { return ErrDisabled }

// Open returns ErrDisabled.
func (*disabledDestination) Open(context.Context) error { return ErrDisabled }
