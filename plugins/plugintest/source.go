package plugintest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

var sourceChecks = []check{
	{"settings", checkSourceSettings},
	{"lifecycle", checkSourceLifecycle},
	{"records", checkRecords},
	{"resume at every position", checkResume},
	{"unknown position", checkUnknownPosition},
	{"acknowledgements withheld", checkWithheld},
	{"acknowledgements late", checkLateAcks},
	{"stop", checkStop},
	{alone, checkStopWaiting},
	{"teardown without stop", checkTeardown},
	{"crash and resume", checkSourceCrash},
}

// reader reads one source and keeps records of a Read that no caller has requested yet.
type reader struct {
	*checker
	source  connector.Source
	ahead   []record.Record
	reading atomic.Value // string: the goroutine that called Read
	reads   atomic.Int64 // how often Read was called
}

// open configures and opens a new source.
func (c *checker) open(settings map[string]string, pos record.Position) *reader {
	c.Helper()
	s := c.source()
	c.must(s.Configure(c.ctx, settings), "Configure")
	c.must(s.Open(c.ctx, pos), "Open at %q", pos)
	return &reader{checker: c, source: s}
}

// read returns the next n records.
func (r *reader) read(n int) []record.Record {
	r.Helper()
	for len(r.ahead) < n {
		records, err := r.next()
		r.must(err, "Read after %d of %d records", len(r.ahead), n)
		r.ahead = append(r.ahead, records...)
	}
	records := r.ahead[:n:n]
	r.ahead = r.ahead[n:]
	return records
}

// next returns the records of a single Read. A Read that never returns is abandoned.
func (r *reader) next() (records []record.Record, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.reads.Add(1)
		r.reading.Store(goroutine())
		var b *record.Batch
		if b, err = r.source.Read(r.ctx); err == nil {
			records, err = b.Records()
		}
	}()
	select {
	case <-done:
		return records, err
	case <-r.ctx.Done():
	}
	select {
	case <-done:
		return records, err
	case <-time.After(r.host.Timeout):
		return nil, errors.New("it does not return though its context ended")
	}
}

// drain stops the source and returns all remaining records.
func (r *reader) drain() []record.Record {
	r.Helper()
	return r.drainOnce(func() {})
}

// drainOnce does the same, but calls Stop once ready has returned, during a Read.
func (r *reader) drainOnce(ready func()) []record.Record {
	r.Helper()
	stopped := make(chan error, 1)
	go func() {
		ready()
		stopped <- r.source.Stop(r.ctx)
	}()
	for {
		records, err := r.next()
		if errors.Is(err, io.EOF) {
			r.must(<-stopped, "Stop")
			return r.ahead
		}
		r.must(err, "Read after Stop")
		r.ahead = append(r.ahead, records...)
	}
}

// close tears the source down.
func (r *reader) close(after string) {
	r.Helper()
	r.teardown(r.source, "%s", after)
}

// ack acknowledges the records in one call.
func (r *reader) ack(records []record.Record) {
	r.Helper()
	r.must(r.source.Ack(r.ctx, positions(records)), "Ack of %d records", len(records))
}

func positions(records []record.Record) []record.Position {
	all := make([]record.Position, len(records))
	for i := range records {
		all[i] = records[i].Position
	}
	return all
}

// same compares the records with the expected ones by their positions.
func (c *checker) same(got, want []record.Record, when string) {
	c.Helper()
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i].Position.Identity(), want[i].Position.Identity()) {
			c.Fatalf("%s: record %d is the one at %q, want the one at %q", when, i+1, got[i].Position, want[i].Position)
		}
	}
	if len(got) < len(want) {
		c.Fatalf("%s: %d records, want %d", when, len(got), len(want))
	}
}

// last returns the position of the last record, or nil if there is none.
func last(records []record.Record) record.Position {
	if len(records) == 0 {
		return nil
	}
	return records[len(records)-1].Position
}

func checkSourceLifecycle(c *checker) {
	settings := c.host.Target.Source(c, 1)
	s := c.source()
	c.must(s.Configure(c.ctx, settings), "Configure")
	c.must(s.LifecycleOnCreated(c.ctx, settings), "LifecycleOnCreated")
	c.must(s.LifecycleOnUpdated(c.ctx, settings, settings), "LifecycleOnUpdated")
	c.must(s.Open(c.ctx, nil), "Open after lifecycle calls")
	c.teardown(s, "Open")
	s = c.source()
	c.must(s.LifecycleOnDeleted(c.ctx, settings), "LifecycleOnDeleted of a connector that is not configured")
	c.teardown(s, "LifecycleOnDeleted")
	c.teardown(c.source(), "nothing else")
}

func checkRecords(c *checker) {
	const n = 200
	before := time.Now()
	r := c.open(c.host.Target.Source(c, n), nil)
	seen := map[string]int{}
	for i, rec := range r.read(n) {
		c.record(i+1, rec, before)
		if j, twice := seen[string(rec.Position.Identity())]; twice {
			c.Errorf("records %d and %d have the same position %q", j, i+1, rec.Position)
		}
		seen[string(rec.Position.Identity())] = i + 1
	}
	r.close("Read")
}

func (c *checker) record(i int, r record.Record, before time.Time) {
	c.Helper()
	if n := len(r.Position); n == 0 || n > record.MaxPosition {
		c.Errorf("record %d has a position of %d bytes: want 1 to %d", i, n, record.MaxPosition)
	}
	if r.Operation < record.OperationCreate || r.Operation > record.OperationSnapshot {
		c.Errorf("record %d has the unknown operation %d", i, r.Operation)
	}
	if r.Key.IsNone() && r.Before.IsNone() && r.After.IsNone() {
		c.Errorf("record %d has neither key nor payload", i)
	}
	if id := r.Metadata.Get(record.KeySourceConnectorID); id != sourceID {
		c.Errorf("record %d says it is of connector %q", i, id)
	}
	at, err := strconv.ParseInt(r.Metadata.Get(record.KeyReadAt), 10, 64)
	if now := time.Now(); err != nil || at < before.UnixNano() || at > now.UnixNano() {
		c.Errorf("record %d says it was read at %q", i, r.Metadata.Get(record.KeyReadAt))
	}
}

func checkResume(c *checker) {
	const n, further = 10, 3
	settings := c.host.Target.Source(c, n+further)
	r := c.open(settings, nil)
	all := r.read(n + further)
	r.close("Read")
	for i := range n {
		r := c.open(settings, all[i].Position)
		c.same(r.read(further), all[i+1:i+1+further], "after resuming behind record "+strconv.Itoa(i+1))
		r.close("Read")
	}
}

// checkUnknownPosition checks that a source refuses a position that it cannot resume from.
func checkUnknownPosition(c *checker) {
	s := c.source()
	c.must(s.Configure(c.ctx, c.host.Target.Source(c, 1)), "Configure")
	err := s.Open(c.ctx, record.Position("\x00plugintest: no position\xff"))
	if err == nil {
		_, err = s.Read(c.ctx)
	}
	if err == nil {
		c.Error("a source opened at a position that is none reads records")
	}
	c.teardown(s, "opening at a position that is none")
}

func checkWithheld(c *checker) {
	const n = 100
	settings := c.host.Target.Source(c, n)
	r := c.open(settings, nil)
	all := r.read(n)
	r.drain()
	r.close("stopping without any acknowledgement")
	r = c.open(settings, nil)
	c.same(r.read(n), all, "rereading unacknowledged records")
	r.close("Read")
}

func checkLateAcks(c *checker) {
	const n = 50
	r := c.open(c.host.Target.Source(c, n), nil)
	all := r.read(n)
	for i := range n / 2 {
		r.ack(all[i : i+1])
	}
	rest := r.drain()
	r.ack(all[n/2:])
	if len(rest) > 0 {
		r.ack(rest)
	}
	r.close("acknowledging everything after Stop")
}

func checkStop(c *checker) {
	const n = 100
	settings := c.host.Target.Source(c, n)
	r := c.open(settings, nil)
	all := r.read(n)
	r.close("Read")
	var got []record.Record
	for _, part := range []int{0, 1, 20} {
		r := c.open(settings, last(got))
		part = min(part, n-len(got)) // more may have arrived before Stop
		records := append(r.read(part), r.drain()...)
		r.close("Stop")
		got = append(got, records...)
		c.same(got[:min(len(got), n)], all[:min(len(got), n)], "stopping and resuming")
		if len(got) >= n {
			break
		}
	}
}

// checkStopWaiting checks that a source stops when it has nothing to read.
func checkStopWaiting(c *checker) {
	const n = 5
	settings := c.host.Target.Source(c, n)
	r := c.open(settings, nil)
	r.read(n)
	short, cancel := context.WithTimeout(c.ctx, c.host.Timeout)
	defer cancel()
	r.checker = &checker{T: c.T, ctx: short, host: c.host}
	r.reading.Store("")
	r.drainOnce(r.waits)
	r.close("Stop")
}

// waits returns when Read waits: its goroutine has been seen blocked many times in a row. It also returns when the
// source keeps delivering, as an endless source does, and after half of the timeout: collecting the stacks of many
// goroutines takes long.
func (r *reader) waits() {
	blocked, before := 0, r.reads.Load()
	ctx, cancel := context.WithTimeout(r.ctx, r.host.Timeout/2)
	defer cancel()
	wait.Until(ctx, func() bool {
		if id, _ := r.reading.Load().(string); id != "" && isBlocked(id) {
			blocked++
		} else {
			blocked = 0
		}
		return blocked == 20 || r.reads.Load()-before > 100
	})
}

// goroutine returns the name of the calling goroutine in the stacks of all goroutines.
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), " [")
	return name
}

// isBlocked reports whether the goroutine is neither running nor runnable.
func isBlocked(name string) bool {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	_, state, found := strings.Cut("\n"+stacks.String(), "\n"+name+" [")
	return found && !strings.HasPrefix(state, "run") // running or runnable
}

func checkTeardown(c *checker) {
	settings := c.host.Target.Source(c, 1)
	r := c.open(settings, nil)
	r.close("Open")
	r = c.open(settings, nil)
	r.read(1)
	r.close("Read")
}

// checkSourceCrash reads everything through a series of crashes. After each crash the source is opened after the
// acknowledged records.
func checkSourceCrash(c *checker) {
	const n, rounds = 200, 8
	settings := c.host.Target.Source(c, n)
	r := c.open(settings, nil)
	all := r.read(n)
	r.close("Read")
	at := 0 // acknowledged
	for range rounds {
		r := c.open(settings, last(all[:at]))
		got := r.read(rand.IntN(n/rounds) + 1)
		c.same(got, all[at:at+len(got)], "after a crash")
		done := rand.IntN(len(got) + 1)
		if done > 0 {
			r.ack(got[:done])
		}
		at += done
		c.crash(r.source.(*onceSource).once)
	}
}
