package parts

import (
	"github.com/conduit-agent/conduit/agent/isolate"
	"github.com/conduit-agent/conduit/plugins/connector"
)

// Isolate returns a destination with a log before it.
func Isolate(o isolate.Options) connector.Destination { return isolate.New(o) }
