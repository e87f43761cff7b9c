package s3

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// window knows which of the objects of a span of time were read, so that those that appear later than
// their time says are recognized.
type window struct {
	span  time.Duration
	since time.Time // when it begins: what is older is not known
	read  map[uint64]mark
	// set has the hashes in read, and while isRestored those that the position had.
	set        sketch
	isRestored bool   // from a position: a listing is needed to know the hashes
	isOlder    bool   // the position is one without a set: all up to it was read
	listing    uint32 // number of the present one
	cut        bool   // it begins later than span asks for, as it has too many objects
}

// mark is what is known of an object that was read.
type mark struct {
	modified int64  // in nanoseconds
	listing  uint32 // that had it last
}

// mostKnown is how many objects a window knows at most: they take 20 MiB.
var mostKnown = 1 << 19

// newWindow returns a window that ends at a time.
func newWindow(end time.Time, span time.Duration) *window {
	return &window{span: span, since: end.Add(-span), read: map[uint64]mark{}}
}

// restore takes over what a position says.
func (w *window) restore(p *position) (err error) {
	w.isRestored, w.isOlder = true, p.Since == nil
	if !w.isOlder {
		w.since = *p.Since
		w.set, err = parseSketch(p.Read)
	}
	return err
}

// hash stands for an object. A version may change its time, in some stores.
func (o *object) hash() uint64 {
	text := binary.AppendUvarint(nil, uint64(len(o.Key)))
	text = append(append(text, o.Key...), o.Version...)
	if o.Version == o.etag {
		text = binary.AppendVarint(append(text, 0), o.Modified.UnixNano())
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// has reports whether an object of the window was read.
func (w *window) has(o *object) bool {
	h := o.hash()
	m, known := w.read[h]
	if known {
		m.listing = w.listing
		w.read[h] = m
	}
	return known
}

// add notes that an object is read.
func (w *window) add(o *object) {
	if !o.Modified.Before(w.since) {
		w.note(o.hash(), o.Modified.UnixNano())
	}
}

func (w *window) note(hash uint64, modified int64) {
	if _, known := w.read[hash]; !known {
		w.read[hash] = mark{modified, w.listing}
		w.set.Add(hash)
	}
}

func (w *window) forget(hash uint64) {
	delete(w.read, hash)
	w.set.Remove(hash)
}

// advance moves the window when an object at a time was read: by an eighth of its span at least, as all
// of it is gone through. One that knows too many objects becomes shorter. It never leaves out what is
// still to be read, which is not older than the object.
func (w *window) advance(reached, at time.Time) {
	const steps = 8
	since, isCut := reached.Add(-w.span), false
	if len(w.read) > mostKnown {
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

// median returns the time from which half of the objects are.
func (w *window) median() time.Time {
	times := make([]int64, 0, len(w.read))
	for _, m := range w.read {
		times = append(times, m.modified)
	}
	slices.Sort(times)
	return time.Unix(0, times[len(times)/2]).UTC()
}

// list begins a listing, and listed ends one that is complete: objects that it did not have are gone.
func (w *window) list() { w.listing++ }

func (w *window) listed() {
	for h, m := range w.read {
		if m.listing != w.listing {
			w.forget(h)
		}
	}
}

// resolve finds out which of the objects that are listed were read, and returns how many it cannot tell
// of: they come again.
func (w *window) resolve(listed map[uint64]int64) (unknown int) {
	hashes := make([]uint64, 0, len(listed))
	for h := range listed {
		hashes = append(hashes, h)
	}
	unread, ok := w.set.Extra(hashes)
	switch {
	case w.isOlder:
		unread = nil
	case !ok:
		unread = slices.DeleteFunc(hashes, func(h uint64) bool { _, known := w.read[h]; return known })
		unknown = len(unread)
	}
	for _, h := range unread {
		delete(listed, h)
	}
	w.read, w.set, w.isRestored, w.isOlder = map[uint64]mark{}, sketch{}, false, false
	for h, modified := range listed {
		w.note(h, modified)
	}
	return unknown
}

// warning says what the window cannot see, nothing when there is nothing. now is the store's time.
func (w *window) warning(now time.Time) string {
	switch {
	case now.Before(w.since):
		return fmt.Sprintf("the clock of the store is at %s, which is more than listing.lookback before the objects that were read: what is written until %s is not read",
			now.UTC().Format(time.DateTime), w.since.UTC().Format(time.DateTime))
	case w.cut:
		return fmt.Sprintf("listing.lookback has more than %d objects: one that appears later than %v after its time is not read", mostKnown, now.Sub(w.since).Truncate(time.Second))
	}
	return ""
}
