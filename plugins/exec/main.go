// Command exec is the built-in connector exec as an executable, for agents that have the built-in one disabled and run
// the executable confined.
package main

import (
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/wire"
)

func main() { wire.Serve(exec.Connector(exec.Options{Enabled: true})) }
