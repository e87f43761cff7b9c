// Package window has the processor that combines several records into one: aggregate.
package window

import (
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{{
		Name:    "aggregate",
		Summary: "Combines the records of a time window into one record.",
		Description: "Records are gathered by key and window, and are not passed on themselves; at the end of a " +
			"window there is a record for each key. They are acknowledged when that record is: a crash loses none, " +
			"and a stop discards open windows, whose records are read again. A window ends early when it holds " +
			"window.records, and when a source cannot read more before records are acknowledged, because its own " +
			"limit, its window or its memory is used up; later records are in a second record of the same window, and " +
			"the log has a warning. Where windows must be complete, write the records to a spool in one pipeline, and " +
			"aggregate them in another pipeline with a source spool: then only window.records limits them. Without " +
			"time a window ends by the clock of the machine, up to a second after its end, or when records of later " +
			"windows have arrived; a record that arrives after that, after an outage for example, is in a second " +
			"record of the same window.",
		Version:  "v0.1.0",
		Author:   "conduit",
		New:      func() sdk.Processor { return &aggregate{} },
		Stateful: true,
	}}
}
