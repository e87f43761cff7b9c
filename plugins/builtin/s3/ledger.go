package s3

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// ledger records which object has which records. Object numbers have no gaps, and an object is written only if its
// number is free. Before each object, the ledger writes an entry with the ids of the object's records. The name of the
// entry has the number and the epoch, a random word of this run; the object's metadata has the epoch, too. So an entry
// is valid if the object with its number has its epoch, no matter who wrote it and how late. Every checkpointEvery-th
// entry also has the ids of all earlier records in the window.
type ledger struct {
	bucket *bucket
	dir    string
	epoch  string
	object func(number int64) string // returns the key

	next    int64                        // number of the next object
	known   map[common.RecordID]struct{} // written before the ledger was opened; nil when they cannot arrive again
	since   int                          // records written since then
	batches [][]common.RecordID          // in the window, oldest first
	kept    int                          // ids in batches
	entries []entry                      // in the store
}

// entry is the name of an entry.
type entry struct {
	number     int64
	epoch      string
	checkpoint bool
}

const checkpointEvery = 256

// epochHeader is the metadata header of objects with the epoch.
const epochHeader = userPrefix + "Conduit-Epoch"

// errTaken reports that another run wrote the object with the number, and that its records are now known.
var errTaken = errors.New("the number is already used")

func (s *destinationSettings) ledger(ctx context.Context, b *bucket) *ledger {
	dir := s.Ledger
	if dir == "" {
		dir = ".conduit-positions/" + texts.Word(sdk.EnvFrom(ctx).ConnectorID) + "/"
	}
	return &ledger{bucket: b, dir: dir, epoch: newEpoch(), object: s.key}
}

func newEpoch() string {
	word := make([]byte, 8)
	_, _ = rand.Read(word) // it never fails
	return hex.EncodeToString(word)
}

func (l *ledger) key(e entry) string {
	kind := ""
	if e.checkpoint {
		kind = ".all"
	}
	return fmt.Sprintf("%s%020d-%s%s", l.dir, e.number, e.epoch, kind)
}

var entryName = texts.Regexp(`^([0-9]{20})-([0-9a-f]{16})(\.all)?$`)

// list returns the entries in the store, by number.
func (l *ledger) list(ctx context.Context) (all []entry, err error) {
	for after := ""; ; {
		page, err := l.bucket.page(ctx, l.dir, after)
		if err != nil || len(page) == 0 {
			return all, err
		}
		for _, o := range page {
			after = o.Key
			if m := entryName().FindStringSubmatch(strings.TrimPrefix(o.Key, l.dir)); m != nil {
				n, _ := strconv.ParseInt(m[1], 10, 64)
				all = append(all, entry{n, m[2], m[3] != ""})
			}
		}
	}
}

// load reads the ids of the written records.
func (l *ledger) load(ctx context.Context) error {
	if err := l.probe(ctx); err != nil {
		return err
	}
	all, err := l.list(ctx)
	if err != nil {
		return err
	}
	valid, err := l.valid(ctx, all)
	if err != nil {
		return err
	}
	l.known, l.since, l.batches, l.kept, l.entries, l.epoch = map[common.RecordID]struct{}{}, 0, nil, 0, all, newEpoch()
	switch {
	case len(all) == 0:
		l.next = time.Now().UnixNano() // above the numbers of a former connector
		return nil
	case len(valid) == 0:
		l.next = all[0].number
		return nil
	}
	from := len(valid) - 1
	l.next = valid[from].number + 1
	for from > 0 && !valid[from].checkpoint {
		from--
	}
	return l.read(ctx, valid[from:])
}

// probe returns an error if the store ignores the condition of a write.
func (l *ledger) probe(ctx context.Context) error {
	for range 2 { // the first may create the object
		err := l.bucket.put(ctx, l.dir+"probe", []byte("conditional"), conditional(http.Header{}))
		if code(err) == preconditionFailed {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return errors.New("exactlyOnce needs conditional writes, but the store ignores If-None-Match: set " +
		"exactlyOnce to false")
}

// conditional makes a write fail if the object exists.
func conditional(h http.Header) http.Header {
	h.Set("If-None-Match", "*")
	return h
}

// valid returns the entries whose objects were written. An epoch with a later entry has written the objects before it.
func (l *ledger) valid(ctx context.Context, all []entry) (valid []entry, err error) {
	last := map[string]int64{}
	for _, e := range all {
		last[e.epoch] = max(last[e.epoch], e.number)
	}
	for _, e := range all {
		owner := e.epoch
		if e.number == last[e.epoch] {
			if owner, err = l.owner(ctx, e.number); err != nil {
				return nil, err
			}
		}
		if owner == e.epoch {
			valid = append(valid, e)
		}
	}
	return valid, nil
}

// owner returns the epoch of the object with a number, or "" if there is no object.
func (l *ledger) owner(ctx context.Context, number int64) (string, error) {
	header, err := l.bucket.head(ctx, l.object(number))
	if code(err) == noSuchKey {
		return "", nil
	}
	return header.Get(epochHeader), err
}

// read learns the ids in the entries.
func (l *ledger) read(ctx context.Context, entries []entry) error {
	contents, errs := make([][]byte, len(entries)), make([]error, len(entries))
	concurrently(len(entries), func(i int) {
		contents[i], _, errs[i] = l.bucket.get(ctx, l.key(entries[i]), "", 0, nil)
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, c := range contents {
		l.learn(c)
	}
	return nil
}

// learn adds the ids in an entry to the written ones.
func (l *ledger) learn(content []byte) {
	if l.known == nil {
		l.known = map[common.RecordID]struct{}{}
	}
	const size = len(common.RecordID{})
	var ids []common.RecordID
	for ; len(content) >= size; content = content[size:] {
		id := common.RecordID(content[:size])
		l.known[id] = struct{}{}
		ids = append(ids, id)
	}
	l.since = 0
	const part = 1024 // of a checkpoint, so that the window advances in parts
	for batch := range slices.Chunk(ids, part) {
		l.remember(batch)
	}
}

// remember keeps ids for checkpoints while they are in the window.
func (l *ledger) remember(ids []common.RecordID) {
	l.batches, l.kept = append(l.batches, ids), l.kept+len(ids)
	for l.kept-len(l.batches[0]) >= common.IDWindow {
		l.kept -= len(l.batches[0])
		l.batches = l.batches[1:]
	}
}

// without returns the items whose records have not been written.
func (l *ledger) without(items []item) []item {
	return slices.DeleteFunc(items, func(i item) bool {
		_, ok := l.known[i.id]
		return ok
	})
}

// put writes an entry and an object of the items, whose content is body. After a failure, the caller repeats it
// unchanged.
func (l *ledger) put(ctx context.Context, header http.Header, body []byte, items []item) error {
	e := entry{l.next, l.epoch, l.next%checkpointEvery == 0}
	ids := make([]common.RecordID, len(items))
	for i := range items {
		ids[i] = items[i].id
	}
	if err := l.bucket.put(ctx, l.key(e), l.content(e, ids), nil); err != nil {
		return err
	}
	header.Set(epochHeader, l.epoch)
	err := l.bucket.put(ctx, l.object(l.next), body, conditional(header))
	if code(err) == preconditionFailed {
		var owner string
		if owner, err = l.owner(ctx, l.next); err == nil && owner != l.epoch {
			return l.adopt(ctx, owner)
		}
	}
	if err != nil {
		return err
	}
	l.written(ctx, e, ids)
	return nil
}

func (l *ledger) content(e entry, ids []common.RecordID) (content []byte) {
	batches := [][]common.RecordID{ids}
	if e.checkpoint {
		batches = append(slices.Clone(l.batches), ids)
	}
	for _, batch := range batches {
		for _, id := range batch {
			content = append(content, id[:]...)
		}
	}
	return content
}

// adopt learns the records that another run wrote under the next number, and advances past it. The earlier entries of
// this epoch stay valid, except the one for that number.
func (l *ledger) adopt(ctx context.Context, owner string) error {
	if owner != "" {
		content, err := l.entryOf(ctx, owner)
		switch {
		case code(err) == noSuchKey: // the other run is far ahead
			if err := l.load(ctx); err != nil {
				return err
			}
			return errTaken
		case err != nil:
			return err
		}
		l.learn(content)
	}
	l.next, l.epoch = l.next+1, newEpoch()
	return errTaken
}

// entryOf returns the content of another epoch's entry for the next number.
func (l *ledger) entryOf(ctx context.Context, epoch string) ([]byte, error) {
	e := entry{l.next, epoch, l.next%checkpointEvery == 0}
	content, _, err := l.bucket.get(ctx, l.key(e), "", 0, nil)
	return content, err
}

// written records a written object, and removes the entries that a checkpoint replaces.
func (l *ledger) written(ctx context.Context, e entry, ids []common.RecordID) {
	l.remember(ids)
	if l.since += len(ids); l.since > common.IDWindow {
		l.known = nil // all outstanding records arrived long ago
	}
	if e.checkpoint {
		l.remove(ctx)
	}
	l.entries = append(l.entries, e)
	l.next++
}

// remove removes all entries. If that fails, the next checkpoint tries again.
func (l *ledger) remove(ctx context.Context) {
	kept := make([]bool, len(l.entries))
	concurrently(len(l.entries), func(i int) { kept[i] = l.bucket.remove(ctx, l.key(l.entries[i])) != nil })
	left := l.entries[:0]
	for i, e := range l.entries {
		if kept[i] {
			left = append(left, e)
		}
	}
	l.entries = left
}

// forget removes all objects of the ledger.
func (l *ledger) forget(ctx context.Context) (err error) {
	if l.entries, err = l.list(ctx); err != nil {
		return err
	}
	if l.remove(ctx); len(l.entries) > 0 {
		return fmt.Errorf("cannot remove %d objects with positions in %s", len(l.entries), l.dir)
	}
	return l.bucket.remove(ctx, l.dir+"probe")
}

// concurrently calls do for each number below n, a few at a time. If a call panics, concurrently panics in the caller's
// goroutine after all calls have ended.
func concurrently(n int, do func(i int)) {
	var done sync.WaitGroup
	var panicked atomic.Pointer[error]
	next := make(chan int)
	for range min(n, parallel) {
		done.Go(func() {
			for i := range next {
				if err := sdk.Contain(func() error { do(i); return nil }); err != nil {
					panicked.Store(&err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	done.Wait()
	if err := panicked.Load(); err != nil {
		panic(*err)
	}
}
