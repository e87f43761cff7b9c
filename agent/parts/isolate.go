package parts

import (
	"github.com/conduit-agent/conduit/agent/isolate"
	"github.com/conduit-agent/conduit/agent/runner"
)

// Isolate returns the isolation of destinations.
func Isolate(s runner.IsolationSetup) runner.Isolation { return isolate.NewPart(s) }
