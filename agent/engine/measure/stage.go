package measure

import (
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Stage is what a connector of a run, or its dead-letter queue, holds and does at one time.
type Stage struct {
	ID          string             // qualified
	Type        spec.ConnectorType // empty for the dead-letter queue
	Doing       Doing
	// records that a source read and that are not settled, or that a destination has not answered for
	Outstanding uint64
	Passed      uint64 // records that a source read, or that a destination or the queue accepted, over all runs
	Acked       uint64 // records acknowledged to a source, over all runs; of a processor, the number of its call
	// Patience is how long a destination may hold records because its settings say so: it gathers batches, or is to
	// go slowly. Negative: for any time.
	Patience time.Duration
	Report   *Report // what it logged; nil for nothing; never modified
	Refusal  *Report // why it refused records; nil for none; never modified
	Warning  string  // what a source warns of now
}

// Doing says what a stage waits for or is busy with.
type Doing string

// What stages do.
const (
	Idle    Doing = ""
	Opening Doing = "opening"
	Reading Doing = "reading"
	Blocked Doing = "waiting for destinations" // a source, until fewer records are outstanding
	Acking  Doing = "acknowledging"
	Writing Doing = "writing"
	// Processing is what a processor does.
	Processing Doing = "processing"
	Gathering  Doing = "gathering a batch"
	Throttled  Doing = "throttled"
	Unclaimed  Doing = "waiting for the cluster" // until the claim on the pipeline is confirmed
)

// Report is what a connector did wrong, or logged to be wrong, since it passed a record last.
type Report struct {
	Text        string // the latest
	First, Last time.Time
	Count       int
}

// Reports keeps what is wrong with a connector. The zero Reports is ready; it may be used concurrently.
type Reports struct{ last atomic.Pointer[Report] }

// maxReport is how many bytes of a report are kept.
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

// Get returns what was reported since Clear was called last, nil for nothing.
func (r *Reports) Get() *Report { return r.last.Load() }

// Clear forgets what was reported.
func (r *Reports) Clear() {
	if r.last.Load() != nil {
		r.last.Store(nil)
	}
}
