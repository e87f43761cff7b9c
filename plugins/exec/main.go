// Command exec is the built-in connector exec as an executable, for agents that have it switched
// off and run it confined.
package main

import (
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/wire"
)

func main() { wire.Serve(exec.Connector(exec.Options{Enabled: true})) }
