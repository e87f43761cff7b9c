// Package processors lists the processors of the full binary.
package processors

import (
	"slices"

	"github.com/conduit-agent/conduit/plugins/processor/ai"
	"github.com/conduit-agent/conduit/plugins/processor/enrich"
	"github.com/conduit-agent/conduit/plugins/processor/expr"
	"github.com/conduit-agent/conduit/plugins/processor/fields"
	"github.com/conduit-agent/conduit/plugins/processor/flow"
	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/processor/javascript"
	"github.com/conduit-agent/conduit/plugins/processor/parse"
	"github.com/conduit-agent/conduit/plugins/processor/window"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// All returns the processors.
func All() []sdk.ProcessorPlugin {
	return slices.Concat(fields.Plugins(), parse.Plugins(), flow.Plugins(), enrich.Plugins(), window.Plugins(),
		expr.Plugins(), javascript.Plugins(), httpcall.Plugins(), ai.Plugins())
}
