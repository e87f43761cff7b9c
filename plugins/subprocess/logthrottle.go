package subprocess

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxLogRate is the number of output bytes of a program that are logged per second, and at once after silence.
const maxLogRate = 1 << 20

// Throttle prevents a program from filling the log. A token bucket decides which lines are logged. The number of
// dropped lines is logged at most once per second.
type Throttle struct {
	log    *slog.Logger
	bucket *rate.Limiter // its tokens are bytes

	mu     sync.Mutex
	lines  int         // guarded by mu: dropped and not reported
	bytes  int         // guarded by mu: bytes of these lines
	report *time.Timer // guarded by mu: nil when there is nothing to report
}

// New returns a throttle for one program, which reports to log.
func New(log *slog.Logger) *Throttle {
	return &Throttle{log: log, bucket: rate.NewLimiter(maxLogRate, maxLogRate)}
}

// Allow reports whether a line of n bytes may be logged. If not, it is counted.
func (t *Throttle) Allow(n int) bool {
	if t.bucket.AllowN(time.Now(), n) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines, t.bytes = t.lines+1, t.bytes+n
	if t.report == nil {
		t.report = time.AfterFunc(time.Second, t.Report)
	}
	return false
}

// Report logs the number of lines dropped since the last report, if any.
func (t *Throttle) Report() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.report == nil {
		return
	}
	t.report.Stop()
	t.log.Warn("program writes more than the log accepts; lines are left out", "lines", t.lines, "bytes", t.bytes)
	t.report, t.lines, t.bytes = nil, 0, 0
}
