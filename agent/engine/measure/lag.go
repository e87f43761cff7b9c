package measure

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

// Lag is the distance of a source from its end of the pipeline. Sequences count the records of the current run.
type Lag struct {
	Read, Settled, Committed, Acked uint64
	OldestUnacked                   time.Duration   // since the oldest record not yet acknowledged was read
	Behind                          progress.Report // progress that the source reports
	OpenSince                       time.Time       // when Open succeeded, zero before
}
