// Command example is a connector: its source makes a record at every tick of a clock, its
// destination appends records to a CSV file.
package main

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

func main() { wire.Serve(connector) }

var connector = sdk.Connector{
	Name:           "example",
	Summary:        "Reads a clock, writes CSV.",
	Version:        "v0.1.0",
	Author:         "you",
	NewSource:      func() sdk.Source { return &source{} },
	NewDestination: func() sdk.Destination { return &destination{} },
}
