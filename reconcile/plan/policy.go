package plan

import (
	"hash/fnv"
	"strconv"
	"time"
)

// The limit on the changes of a pipeline in an agent.
const (
	MaxChanges    = 100
	ChangesWindow = 10 * time.Second
)

// Policy sets the handling of changes and failures. The zero value waits for nothing and never retries.
type Policy struct {
	// Hold keeps retrying a version that cannot start: no other version is started, though a running one continues.
	// Otherwise the last known good version runs again until the declaration changes.
	Hold          bool
	Probation     time.Duration // a new version that fails sooner is handled like a version that cannot start
	DeletionGrace time.Duration // from a withdrawal until the pipeline stops
	CleanupDelay  time.Duration // from then until its connectors are cleaned up
	DrainTimeout  time.Duration // a stop that takes longer is forced; 0 waits for ever

	// MaxChanges is how many versions of a pipeline are taken up within the window. Further versions wait until the
	// limit allows another, and the latest of them counts. 0 for no limit.
	MaxChanges    int
	ChangesWindow time.Duration

	Recovery
}

// Recovery sets the retries of a failed pipeline.
type Recovery struct {
	MinDelay         time.Duration // before the first retry
	MaxDelay         time.Duration // before any retry
	BackoffFactor    int           // by which the delay grows
	MaxRetries       int           // the pipeline is degraded after this many; -1 for no limit
	MaxRetriesWindow time.Duration // a failure this long after its retry no longer counts
}

// nextChange returns the time when one more version may be taken up, from the times of earlier changes, oldest first.
func (p Policy) nextChange(changes []time.Time) time.Time {
	if p.MaxChanges <= 0 || len(changes) < p.MaxChanges {
		return time.Time{}
	}
	return changes[len(changes)-p.MaxChanges].Add(p.ChangesWindow)
}

// Delay returns how long to wait after the given number of failures in a row, from 1. It varies by a tenth with id and
// count, so that pipelines that fail together do not come back together, and never exceeds MaxDelay.
func (p Policy) Delay(id string, failures int) time.Duration {
	delay, limit := float64(p.MinDelay), float64(p.MaxDelay)
	for i := 1; i < failures && delay < limit; i++ {
		delay *= float64(max(p.BackoffFactor, 1))
		if p.BackoffFactor <= 1 {
			break
		}
	}
	h := fnv.New32a()
	h.Write([]byte(id + strconv.Itoa(failures)))
	delay *= 0.9 + 0.2*float64(h.Sum32()%1000)/1000
	if limit > 0 {
		delay = min(delay, limit)
	}
	return time.Duration(delay)
}
