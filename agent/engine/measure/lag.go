package measure

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

// Lag says how far a source is from its end of the pipeline. Sequences count the
// records of the current run.
type Lag struct {
	Read, Settled, Committed, Acked uint64
	OldestUnacked                   time.Duration   // since the oldest record not yet acknowledged was read
	Behind                          progress.Report // what the source says of its system
	OpenSince                       time.Time       // when Open succeeded, zero before
}
