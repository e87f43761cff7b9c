//go:build minimal

package expr

import (
	"github.com/conduit-agent/conduit/plugins/processor/absent"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func newFilter() sdk.Processor { return absent.New("expressions") }
func newMapper() sdk.Processor { return absent.New("expressions") }
