package progress

import (
	"sync"
	"time"
)

// Latest keeps what a system said last, for a source that knows no more of its progress than
// that, or measured it. The zero Latest is ready to use, by several goroutines.
type Latest struct {
	mu     sync.Mutex
	report Report // guarded by mu
}

// Note keeps the warning. Without one the system answered now.
func (l *Latest) Note(warning string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.report.Warning = warning; warning == "" {
		l.report.At = time.Now()
	}
}

// Set keeps the report.
func (l *Latest) Set(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report = r
}

// Report returns what was set last, with the time of the last answer, and the warning if there was one since.
func (l *Latest) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report
}
