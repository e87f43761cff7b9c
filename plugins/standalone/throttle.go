package standalone

import (
	"log/slog"
	"sync"
	"time"
)

// maxLogRate is how many bytes of output of a plugin are logged in a second, and at once
// after silence.
const maxLogRate = 1 << 20

// flood keeps a plugin from filling the log. What is above the rate is left out, and how
// much that is is logged, at most once a second.
type flood struct {
	log *slog.Logger

	mu     sync.Mutex
	left   float64     // guarded by mu: bytes that may be logged at once
	asOf   time.Time   // guarded by mu: when that was
	lines  int         // guarded by mu: left out and not reported
	bytes  int         // guarded by mu: of them
	report *time.Timer // guarded by mu: nil when there is nothing to report
}

// allows reports whether a line of n bytes may be logged. If not, it is counted.
func (f *flood) allows(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.asOf.IsZero() {
		f.left = maxLogRate
	} else {
		f.left = min(maxLogRate, f.left+now.Sub(f.asOf).Seconds()*maxLogRate)
	}
	f.asOf = now
	if f.left >= float64(n) {
		f.left -= float64(n)
		return true
	}
	f.lines, f.bytes = f.lines+1, f.bytes+n
	if f.report == nil {
		f.report = time.AfterFunc(time.Second, f.tell)
	}
	return false
}

// tell logs how much was left out since the last time, if anything was.
func (f *flood) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.report == nil {
		return
	}
	f.report.Stop()
	f.log.Warn("plugin writes more than the log takes, some of it is left out", "lines", f.lines, "bytes", f.bytes)
	f.report, f.lines, f.bytes = nil, 0, 0
}
