package s3

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// window knows which objects of a span of time have been read. It recognizes objects that appear later than their time
// says.
type window struct {
	span  time.Duration
	since time.Time // beginning of the window; older objects are unknown
	read  map[uint64]mark
	// set has the objects in read and, while isRestored, those of the position.
	set        readSet
	isRestored bool   // from a position: only a listing can tell the hashes
	isOlder    bool   // the position has no set: all objects up to it were read
	listing    uint32 // number of the current listing
	cut        bool   // begins later than span requires, because it has too many objects
}

// mark is the state of a read object.
type mark struct {
	modified int64  // in nanoseconds
	listing  uint32 // last listing that had the object
}

// maxKnown is the maximum number of objects in a window: they take 20 MiB.
var maxKnown = 1 << 19

// newWindow returns a window that ends at a time.
func newWindow(end time.Time, span time.Duration) *window {
	return &window{span: span, since: end.Add(-span), read: map[uint64]mark{}}
}

// restore restores the window from a position.
func (w *window) restore(p *position) {
	w.isRestored, w.isOlder = true, p.Since == nil
	if !w.isOlder {
		w.since = *p.Since
	}
	if p.Known != nil {
		w.set = *p.Known
	}
}

// hash identifies an object. In some stores the time of a version may change.
func (o *object) hash() uint64 {
	text := binary.AppendUvarint(nil, uint64(len(o.Key)))
	text = append(append(text, o.Key...), o.Version...)
	if o.Version == o.etag {
		text = binary.AppendVarint(append(text, 0), o.Modified.UnixNano())
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// has reports whether an object of the window has been read.
func (w *window) has(o *object) bool {
	h := o.hash()
	m, known := w.read[h]
	if known {
		m.listing = w.listing
		w.read[h] = m
	}
	return known
}

// add records that an object has been read.
func (w *window) add(o *object) {
	if !o.Modified.Before(w.since) {
		w.note(o.hash(), o.Modified.UnixNano())
	}
}

func (w *window) note(hash uint64, modified int64) {
	if _, known := w.read[hash]; !known {
		w.read[hash] = mark{modified, w.listing}
		w.set.add(hash, modified)
	}
}

func (w *window) forget(hash uint64) {
	w.set.remove(hash, w.read[hash].modified)
	delete(w.read, hash)
}

// advance moves the window after an object at the time at was read. It moves by an eighth of its span or more, because
// it visits all marks. A window with too many objects becomes shorter. It never excludes unread objects, which are not
// older than that object.
func (w *window) advance(reached, at time.Time) {
	const steps = 8
	since, isCut := reached.Add(-w.span), false
	if len(w.read) > maxKnown {
		since, isCut = w.median(), true
	}
	if since = earlier(since, at); since.Sub(w.since) > w.span/steps || isCut && since.After(w.since) {
		w.begin(since)
		w.cut = isCut
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (w *window) begin(since time.Time) {
	w.since = since
	for h, m := range w.read {
		if m.modified < since.UnixNano() {
			w.forget(h)
		}
	}
}

// median returns the median of the times of the objects.
func (w *window) median() time.Time {
	times := make([]int64, 0, len(w.read))
	for _, m := range w.read {
		times = append(times, m.modified)
	}
	slices.Sort(times)
	return time.Unix(0, times[len(times)/2]).UTC()
}

// list begins a listing. listed ends a complete one: objects that it did not have are gone.
func (w *window) list() { w.listing++ }

func (w *window) listed() {
	for h, m := range w.read {
		if m.listing != w.listing {
			w.forget(h)
		}
	}
}

// resolve finds out which of the listed objects were read. It returns the number of objects for which it cannot tell:
// they arrive again.
func (w *window) resolve(listed map[uint64]int64) (unknown int) {
	if !w.isOlder {
		unread, doubtful := w.set.compare(listed)
		doubtful = slices.DeleteFunc(doubtful, func(h uint64) bool { _, known := w.read[h]; return known })
		unknown = len(doubtful)
		for _, h := range append(unread, doubtful...) {
			delete(listed, h)
		}
	}
	w.read, w.set, w.isRestored, w.isOlder = map[uint64]mark{}, readSet{}, false, false
	for h, modified := range listed {
		w.note(h, modified)
	}
	return unknown
}

// warning describes objects that the window may miss, or returns "". now is the store's time.
func (w *window) warning(now time.Time) string {
	switch {
	case now.Before(w.since):
		return fmt.Sprintf("the clock of the store is at %s, more than listing.lookback before the newest object "+
			"read: the source skips objects written before %s",
			now.UTC().Format(time.DateTime), w.since.UTC().Format(time.DateTime))
	case w.cut:
		return fmt.Sprintf("there are more than %d objects within listing.lookback: the source skips objects that "+
			"appear later than %v after their time", maxKnown, now.Sub(w.since).Truncate(time.Second))
	}
	return ""
}
