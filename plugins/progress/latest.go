package progress

import (
	"sync"
	"time"
)

// Latest keeps the last report of a system, for a source that has no other progress, or that measures it. The zero
// Latest is ready to use, and safe for concurrent use.
type Latest struct {
	mu     sync.Mutex
	report Report // guarded by mu
}

// Note sets the warning. An empty warning means that the system has just answered.
func (l *Latest) Note(warning string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.report.Warning = warning; warning == "" {
		l.report.At = time.Now()
	}
}

// Set sets the report.
func (l *Latest) Set(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report = r
}

// Report returns the last report, with the time of the last answer, and the warning if it is newer than that.
func (l *Latest) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report
}
