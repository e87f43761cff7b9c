package measure

import (
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Stage is a snapshot of a connector, processor or dead-letter queue of a run: the records it holds and its activity.
type Stage struct {
	ID    string             // qualified
	Type  spec.ConnectorType // empty for the dead-letter queue
	Doing Doing
	// records that a source read and that are not settled, or that a destination has not responded for
	Outstanding uint64
	// records that a source read, that a destination or the queue accepted, or that a processor did not refuse, over all
	// runs
	Passed uint64
	Acked  uint64 // records acknowledged to a source, over all runs; number of calls of a processor
	// Patience is how long a destination may hold records because of its settings: it gathers batches, or has a rate
	// limit. Negative: for any time.
	Patience time.Duration
	Report   *Report // logged errors; nil if there are none; never modified
	Refusal  *Report // why it refused records; nil for none; never modified
	Failure  *Report // failures of an isolated destination; nil: none; never modified
	// Held is since when the system of an isolated destination holds records and has settled none; zero if it holds
	// none, or holds them because of its settings.
	Held    time.Time
	Warning string // current warning of a source
	RawLane string // of a source: sdk.RawLane; "" if its connector has no lines
}

// Doing is the current activity of a stage.
type Doing string

// Activities of stages.
const (
	Idle    Doing = ""
	Opening Doing = "opening"
	Reading Doing = "reading"
	Blocked Doing = "waiting for destinations" // a source, until fewer records are outstanding
	Acking  Doing = "acknowledging"
	Writing Doing = "writing"
	// Processing is the activity of a processor.
	Processing Doing = "processing"
	Gathering  Doing = "gathering a batch"
	Throttled  Doing = "throttled"
	// Full is the activity of an isolated destination while records wait for room in its log.
	Full      Doing = "waiting for room in its log"
	Unclaimed Doing = "waiting for the cluster" // until the claim on the pipeline is confirmed
)

// Report summarizes the errors that a connector returned or logged since it last passed a record.
type Report struct {
	Text        string // the latest
	First, Last time.Time
	Count       int
}

// Reports keeps the errors of a connector. The zero Reports is ready to use. It is safe for concurrent use.
type Reports struct{ last atomic.Pointer[Report] }

// maxReport is the maximum size of a report in bytes.
const maxReport = 1024

// Note keeps a report.
func (r *Reports) Note(text string, at time.Time) {
	if len(text) > maxReport {
		text = text[:maxReport] + "…"
	}
	for {
		before := r.last.Load()
		now := &Report{Text: text, First: at, Last: at, Count: 1}
		if before != nil {
			now.First, now.Count = before.First, before.Count+1
		}
		if r.last.CompareAndSwap(before, now) {
			return
		}
	}
}

// Get returns the errors reported since the last call of Clear, or nil if there are none.
func (r *Reports) Get() *Report { return r.last.Load() }

// Clear discards the reported errors.
func (r *Reports) Clear() {
	if r.last.Load() != nil {
		r.last.Store(nil)
	}
}
