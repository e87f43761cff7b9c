// Package window has the processor that makes one record of many: aggregate.
package window

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{{
		Name:    "aggregate",
		Summary: "Makes one record of the records of a time window.",
		Description: "Records are gathered by key and window, and go no further themselves; at the end of a window there is a record for each key. " +
			"They are acknowledged when that record is: a crash loses none, and a stop lets open windows go, to be read again. " +
			"A window ends early when it holds window.records, so that it never waits for records that may not be outstanding; what comes then is in a second record of the same window.",
		Version:  "v0.1.0",
		Author:   "conduit",
		New:      func() sdk.Processor { return &aggregate{} },
		Stateful: true,
		Bounded:  true,
	}}
}
