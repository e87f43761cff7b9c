package s3

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
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
// entry also has the ids of all earlier records in the window. See stages for objects whose keys depend on records.
type ledger struct {
	bucket *bucket
	dir    string
	epoch  string
	object func(number int64) string // returns the key of the object that takes the number
	header func() http.Header        // of objects
	stages bool                      // object returns the key of a staged object

	next    int64                        // number of the next object
	known   map[common.RecordID]struct{} // written before the ledger was opened; nil when they cannot arrive again
	ahead   map[common.RecordID]struct{} // written by the current Write: an error may repeat them
	since   int                          // records written since then
	batches [][]common.RecordID          // in the window, oldest first
	kept    int                          // ids in batches
	entries []entry                      // in the store
	staged  []int64                      // numbers of the staged objects in the store
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
	l := &ledger{bucket: b, dir: dir, epoch: newEpoch(), header: s.header, ahead: map[common.RecordID]struct{}{}}
	_, name := s.named()
	if l.stages = strings.Contains(name, "{{"); l.stages {
		l.object = l.stage
	} else {
		l.object = func(number int64) string { return s.keyOf(name, number) }
	}
	return l
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

// list returns the entries in the store, by number, and finds the staged objects.
func (l *ledger) list(ctx context.Context) (all []entry, err error) {
	l.staged = nil
	for after := ""; ; {
		page, err := l.bucket.page(ctx, l.dir, after)
		if err != nil || len(page) == 0 {
			return all, err
		}
		for _, o := range page {
			after = o.Key
			if n, ok := l.stageOf(o.Key); ok {
				l.staged = append(l.staged, n)
			}
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
	if err := l.publishLeft(ctx, valid); err != nil {
		return err
	}
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
		_, known := l.known[i.id]
		_, ahead := l.ahead[i.id]
		return known || ahead
	})
}

// put writes an entry and an object of the items with a key, whose content is body. After a failure, the caller
// repeats it unchanged.
func (l *ledger) put(ctx context.Context, key string, body []byte, items []item) error {
	e := entry{l.next, l.epoch, l.next%checkpointEvery == 0}
	ids := make([]common.RecordID, len(items))
	for i := range items {
		ids[i] = items[i].id
	}
	if err := l.bucket.put(ctx, l.key(e), l.content(e, ids), nil); err != nil {
		return err
	}
	err := l.bucket.put(ctx, l.object(l.next), body, conditional(l.headerOf(l.epoch, key)))
	if code(err) == preconditionFailed {
		var owner string
		if owner, err = l.owner(ctx, l.next); err == nil && owner != l.epoch {
			return l.adopt(ctx, owner)
		}
	}
	if err == nil && l.stages {
		err = l.publish(ctx, l.next, l.epoch, key, body)
	}
	if err != nil {
		return err
	}
	l.written(ctx, e, ids)
	return nil
}

// headerOf returns the header of the object that takes a number.
func (l *ledger) headerOf(epoch, key string) http.Header {
	h := l.header()
	h.Set(epochHeader, epoch)
	if l.stages {
		h.Set(keyHeader, encodeKey(key))
	}
	return h
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
		if err := l.publishStaged(ctx, l.next); err != nil {
			return err
		}
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
	for _, id := range ids {
		l.ahead[id] = struct{}{}
	}
	if l.stages {
		l.staged = append(l.staged, e.number)
	}
	if l.since += len(ids); l.since > common.IDWindow {
		l.known = nil // all outstanding records arrived long ago
	}
	if e.checkpoint {
		l.entries = removed(l.entries, func(e entry) error { return l.bucket.remove(ctx, l.key(e)) })
		l.removeStaged(ctx, e.number-keptStages)
	}
	l.entries = append(l.entries, e)
	l.next++
}

// removed removes objects, and returns those that remain because of errors. The next checkpoint tries again.
func removed[T any](all []T, remove func(T) error) (left []T) {
	kept := make([]bool, len(all))
	concurrently(len(all), func(i int) { kept[i] = remove(all[i]) != nil })
	left = all[:0]
	for i := range all {
		if kept[i] {
			left = append(left, all[i])
		}
	}
	return left
}

// forget removes all objects of the ledger.
func (l *ledger) forget(ctx context.Context) (err error) {
	entries, err := l.list(ctx)
	if err != nil {
		return err
	}
	l.entries = removed(entries, func(e entry) error { return l.bucket.remove(ctx, l.key(e)) })
	l.removeStaged(ctx, math.MaxInt64)
	if n := len(l.entries) + len(l.staged); n > 0 {
		return fmt.Errorf("cannot remove %d objects with positions in %s", n, l.dir)
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
