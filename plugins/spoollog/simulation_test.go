package spoollog_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// world is a log with one writer and one reader. The writer repeats unacknowledged records. After a kill, the reader
// repeats the records after its saved position.
type world struct {
	fs     *simFS
	rng    *rand.Rand
	log    *spoollog.Log
	writer *spoollog.Writer
	reader *spoollog.Reader
	cursor *spoollog.Cursor

	sent, acked int // numbers of the last written and the last acknowledged record
	hybrid      bool
	waiting     []inFlight

	next  uint64 // offset that the reader continues from
	seen  int    // highest number that it received, without a gap from 1
	saved struct {
		next uint64
		seen int
		id   uint64
	}
	damaged uint64 // records that the log reported as damaged, in all runs
	missing int    // numbers that the reader did not receive
	flips   bool   // bits on the disk change, too
}

// inFlight is a group of records that wait for acknowledgement, up to a number.
type inFlight struct {
	commit *spoollog.Commit
	sent   int
}

// These flags select the histories that TestFaults tries.
var (
	wantFaults = flag.Int64("faults", 1_000, "faults that are injected")
	firstSeed  = flag.Uint64("first", 1, "the seed of the first world")
)

// TestFaults subjects a log to torn, short, reordered and flipped writes, full and failing disks at every call, and
// power cuts at any time. No acknowledged record is lost, and the log can always be opened.
func TestFaults(t *testing.T) {
	var faults, worlds, acked, damaged atomic.Int64
	var next atomic.Uint64
	next.Store(*firstSeed)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for faults.Load() < *wantFaults && !t.Failed() {
				n := next.Add(1) - 1
				w, err := live(n)
				if err != nil {
					t.Errorf("seed %d: %v", n, err)
				}
				faults.Add(int64(w.fs.faults))
				acked.Add(int64(w.acked))
				damaged.Add(int64(w.missing))
				worlds.Add(1)
			}
		})
	}
	group.Wait()
	t.Logf("%d faults in %d worlds from seed %d on: %d records acknowledged, %d of them damaged on the disk and "+
		"reported, 0 lost, 0 refusals to open",
		faults.Load(), worlds.Load(), *firstSeed, acked.Load(), damaged.Load())
}

// live simulates several runs of a world. Each run ends with a crash or a clean close.
func live(seed uint64) (*world, error) {
	rng := rand.New(rand.NewPCG(seed, 16))
	w := &world{fs: newSimFS(rng), rng: rng, flips: seed%4 == 0, hybrid: seed%3 == 0}
	for run := range 3 + rng.IntN(6) {
		if err := w.run(); err != nil {
			return w, fmt.Errorf("run %d: %w", run, err)
		}
	}
	w.fs.odds = 0
	if err := w.open(); err != nil {
		return w, err
	}
	if err := w.read(math.MaxInt); err != nil {
		return w, err
	}
	w.missing += max(0, w.acked-w.seen)
	if reported := int(w.damaged + w.log.Counts().Damaged); w.missing > 0 && (!w.flips || w.missing > reported) {
		return w, fmt.Errorf("%w: %d records are missing, and %d reported as damaged", errSimulation, w.missing,
			reported)
	}
	return w, nil
}

// run opens the log, writes and reads, and crashes.
func (w *world) run() error {
	w.fs.odds = 2 + w.rng.IntN(60)
	if w.rng.IntN(4) == 0 {
		w.fs.odds = 0
	}
	if err := w.open(); err != nil {
		return err
	}
	for range w.rng.IntN(40) {
		var err error
		switch w.rng.IntN(5) {
		case 0, 1, 2:
			w.write()
			if w.rng.IntN(2) == 0 {
				w.settle()
			}
		case 3:
			err = w.read(1 + w.rng.IntN(10))
		case 4:
			w.acknowledge()
			w.settle()
		}
		if err != nil {
			return err
		}
	}
	w.end()
	return nil
}

// open opens the log. It may fail only because a call of the file system failed.
func (w *world) open() error {
	for {
		w.fs.failed = false
		l, err := spoollog.Open("/spool", spoollog.Options{FS: w.fs, SegmentBytes: 200 + w.rng.Int64N(800),
			Now: func() time.Time { return time.Time{} }})
		if err == nil {
			w.log = l
			w.reader, err = l.Reader("reader")
		}
		if err == nil && w.hybrid {
			err = l.SetHybrid(time.Hour)
		}
		if err == nil {
			break
		}
		if !w.fs.failed {
			return fmt.Errorf("%w: refused to open: %w", errSimulation, err)
		}
		w.fs.odds = 0 // the next attempt must succeed
	}
	w.next, w.seen = w.saved.next, w.saved.seen
	if w.saved.id != w.log.ID() {
		w.next = 0
	}
	w.cursor = w.log.Cursor(w.next)
	w.restart()
	return nil
}

// restart lets the writer continue after the last acknowledged record.
func (w *world) restart() { w.sent, w.waiting, w.writer = w.acked, nil, w.log.Writer() }

// write appends a few records, in one frame or several.
func (w *world) write() {
	for range 1 + w.rng.IntN(3) {
		var records []record.Record
		for range 1 + w.rng.IntN(3) {
			w.sent++
			records = append(records, record.Record{Key: record.Raw(strconv.AppendInt(nil, int64(w.sent), 10)),
				After: record.Raw(make([]byte, w.rng.IntN(100)))})
		}
		frames, _, _ := spoollog.Encode(records)
		c, err := w.writer.Append(context.Background(), frames)
		if err != nil { // a commit failed, which the writer must notice
			w.sent -= len(records)
			w.settle()
			return
		}
		w.waiting = append(w.waiting, inFlight{c, w.sent})
	}
	if !w.hybrid || w.rng.IntN(8) == 0 {
		_ = w.log.Flush(context.Background()) // the commits report errors
	}
}

// settle records which appends were acknowledged. After an error the writer continues after the last acknowledged
// record.
func (w *world) settle() {
	for len(w.waiting) > 0 && w.waiting[0].commit.Done() {
		if w.waiting[0].commit.Wait(context.Background()) != nil {
			w.restart()
			return
		}
		w.acked, w.waiting = w.waiting[0].sent, w.waiting[1:]
	}
}

// read reads a number of times, and checks that no record is missing.
func (w *world) read(times int) error {
	for range times {
		records, offsets, err := w.cursor.Read(math.MaxUint64)
		for i := range records {
			b, _ := records[i].Key.Raw()
			n, err := strconv.Atoi(string(b))
			if err != nil {
				return fmt.Errorf("%w: read %q", errSimulation, b)
			}
			if n > w.seen+1 {
				w.missing += n - w.seen - 1
				if !w.flips || w.missing > int(w.damaged+w.log.Counts().Damaged) {
					return fmt.Errorf("%w: %d at offset %d follows %d", errSimulation, n, offsets[i], w.seen)
				}
			}
			w.seen, w.next = max(w.seen, n), offsets[i]+1
		}
		if len(records) == 0 && err == nil {
			break
		}
		if err != nil && w.fs.odds == 0 {
			return fmt.Errorf("%w: cannot read: %w", errSimulation, err)
		}
	}
	if !w.flips && w.log.Counts().Damaged > 0 {
		return fmt.Errorf("%w: %d records count as damaged", errSimulation, w.log.Counts().Damaged)
	}
	return nil
}

// acknowledge saves the position of the reader and acknowledges up to it.
func (w *world) acknowledge() {
	w.saved.next, w.saved.seen, w.saved.id = w.next, w.seen, w.log.ID()
	_ = w.reader.Acknowledge(w.next)
}

// end closes the log, or cuts the power.
func (w *world) end() {
	w.cursor.Close()
	w.damaged += w.log.Counts().Damaged
	if w.rng.IntN(4) == 0 {
		_ = w.log.Close()
		if w.rng.IntN(2) == 0 {
			return
		}
	}
	w.fs.crash()
	if w.flips && w.rng.IntN(3) == 0 {
		w.fs.flip()
	}
}
