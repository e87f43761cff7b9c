// Command exec is a connector that runs commands: its source makes records of the lines
// that a command prints, its destination hands records to a command as lines.
package main

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

func main() { wire.Serve(connector) }

var connector = sdk.Connector{
	Name:           "exec",
	Summary:        "Runs commands.",
	Description:    "A source makes records of the lines that a command prints: text, JSON or Singer messages. A destination writes records to a command, one per line.",
	Version:        "v0.1.0",
	Author:         "conduit",
	NewSource:      func() sdk.Source { return &source{} },
	NewDestination: func() sdk.Destination { return &destination{} },
}
