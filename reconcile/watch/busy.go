package watch

import (
	"path/filepath"
	"time"
)

// A directory with more than busyEvents irrelevant events within busyWindow is polled for polledFor: an event for each
// write of a destination costs as much as the write.
const (
	busyEvents = 100
	busyWindow = time.Second
	polledFor  = time.Minute
)

// busy counts the irrelevant events of each directory, and says which directories are polled.
type busy struct {
	counts map[string]*eventCount
	polled map[string]time.Time // until this time
}

// eventCount is the number of events since a time.
type eventCount struct {
	n     int
	since time.Time
}

// exceeded counts an irrelevant event in dir and reports whether there are too many.
func (b *busy) exceeded(dir string, now time.Time) bool {
	c := b.counts[dir]
	if c == nil {
		c = &eventCount{}
		b.counts[dir] = c
	}
	if now.Sub(c.since) >= busyWindow {
		c.n, c.since = 0, now
	}
	c.n++
	return c.n > busyEvents
}

// poll starts to poll dir.
func (b *busy) poll(dir string, now time.Time) {
	delete(b.counts, dir)
	b.polled[dir] = now.Add(polledFor)
}

// isPolled reports whether dir is polled, and forgets it when its time is over.
func (b *busy) isPolled(dir string, now time.Time) bool {
	until, ok := b.polled[dir]
	if ok && !now.Before(until) {
		delete(b.polled, dir)
		return false
	}
	return ok
}

// ignore counts an irrelevant event in dir. If there are too many, and the trigger only waits there for something
// missing, it removes the watch and returns true: dir is polled.
func (r *triggerRun) ignore(dir string, now time.Time) bool {
	if writes, whole := r.whole[dir]; !whole || writes || !r.busy.exceeded(dir, now) {
		return false
	}
	for name := range r.names {
		if filepath.Dir(name) == dir {
			return false // an existing file or link
		}
	}
	r.busy.poll(dir, now)
	r.unwatch(dir)
	return true
}
