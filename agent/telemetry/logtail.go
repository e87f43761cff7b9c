package telemetry

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Limits of a LogTail.
const (
	maxLogLines      = 200     // lines of a pipeline or connector
	maxLogsPerSecond = 100     // lines of a pipeline or connector; more are only counted
	maxLogBytes      = 8 << 20 // bytes of all lines
	maxLogText       = 2 << 10 // bytes of a message or field
	logLineOverhead  = 200     // approximate bytes of a line without its text
)

// LogTail keeps the last lines that the agent logged for each pipeline and connector, and for none. The zero value is
// ready to use.
type LogTail struct {
	changed notify.Broadcast

	mu    sync.Mutex
	rings map[string]*logRing // by id of the pipeline or the connector, "" for neither; guarded by mu
	bytes int                 // of all lines; guarded by mu
	last  int64               // id of the newest line; guarded by mu
}

// logRing holds the lines of a pipeline or connector, oldest first.
type logRing struct {
	lines   []spec.LogLine
	bytes   int
	second  int64 // Unix time of the second that counted applies to
	counted int
	dropped int // lines dropped since the newest one in lines
}

// admit reports whether to keep a line of a pipeline or connector. It costs next to nothing for a dropped line, so a
// flood of lines costs no more than without a LogTail.
func (l *LogTail) admit(id string, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[id]
	if r == nil {
		r = &logRing{}
		if l.rings == nil {
			l.rings = map[string]*logRing{}
		}
		l.rings[id] = r
	}
	if second := at.Unix(); second != r.second {
		r.second, r.counted = second, 0
	}
	if r.counted == maxLogsPerSecond {
		r.dropped++
		return false
	}
	r.counted++
	return true
}

// keep keeps a line.
func (l *LogTail) keep(id string, line spec.LogLine) {
	size := logLineSize(&line)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[id]
	if r == nil { // forgotten since it was admitted
		return
	}
	l.last++
	line.ID, line.Dropped = l.last, r.dropped
	r.dropped = 0
	r.lines = append(r.lines, line)
	r.bytes, l.bytes = r.bytes+size, l.bytes+size
	if len(r.lines) > maxLogLines {
		l.removeOldest(id, r)
	}
	for l.bytes > maxLogBytes {
		id, r := l.largest()
		l.removeOldest(id, r)
	}
	l.changed.Notify()
}

// removeOldest removes the oldest line of r. The caller holds mu.
func (l *LogTail) removeOldest(id string, r *logRing) {
	size := logLineSize(&r.lines[0])
	r.bytes, l.bytes = r.bytes-size, l.bytes-size
	r.lines[0] = spec.LogLine{}
	if r.lines = r.lines[1:]; len(r.lines) == 0 {
		delete(l.rings, id)
	}
}

// largest returns the ring with the most bytes. The caller holds mu.
func (l *LogTail) largest() (id string, largest *logRing) {
	for owner, r := range l.rings {
		if largest == nil || r.bytes > largest.bytes {
			id, largest = owner, r
		}
	}
	return id, largest
}

// Read returns the newest lines, up to limit, of the pipelines and connectors with these ids that came after the line
// with the id after, oldest first. Without ids it returns all lines, including those about no pipeline.
func (l *LogTail) Read(ids []string, after int64, limit int) []spec.LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := []spec.LogLine{}
	if len(ids) == 0 {
		for _, r := range l.rings {
			all = append(all, r.after(after)...)
		}
	}
	for _, id := range ids {
		if r := l.rings[id]; r != nil {
			all = append(all, r.after(after)...)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all[max(0, len(all)-limit):]
}

// after returns the lines after the one with the id last. The caller holds the lock of the LogTail.
func (r *logRing) after(last int64) []spec.LogLine {
	first, _ := slices.BinarySearchFunc(r.lines, last+1, func(line spec.LogLine, id int64) int {
		return cmp.Compare(line.ID, id)
	})
	return r.lines[first:]
}

// Changed returns a channel that is closed when the next line comes.
func (l *LogTail) Changed() <-chan struct{} { return l.changed.Next() }

// Forget forgets the lines of a pipeline or connector.
func (l *LogTail) Forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.rings[id]; r != nil {
		l.bytes -= r.bytes
		delete(l.rings, id)
	}
}

// logLineSize is the approximate memory of a line in bytes.
func logLineSize(line *spec.LogLine) int {
	n := logLineOverhead + len(line.Message)
	for key, value := range line.Fields {
		n += len(key) + len(value) + 2*16
	}
	return n
}
