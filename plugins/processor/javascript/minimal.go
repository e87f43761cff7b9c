//go:build minimal

package javascript

import (
	"github.com/conduit-agent/conduit/plugins/processor/absent"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func newProcessor() sdk.Processor { return absent.New("JavaScript") }
