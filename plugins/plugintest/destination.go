package plugintest

import (
	"slices"
	"strconv"
	"sync"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
)

var destinationChecks = []check{
	{"settings", checkDestinationSettings},
	{"lifecycle", checkDestinationLifecycle},
	{"write", checkWrite},
	{"write again", checkWriteAgain},
	{"nothing to write", checkNothing},
	{"strange records", checkStrange},
	{"oversized record", checkOversized},
	{"teardown without stop", checkDestinationTeardown},
	{"crash", checkDestinationCrash},
}

// writer writes to one destination and records the settled records.
type writer struct {
	*checker
	destination connector.Destination

	mu      sync.Mutex
	refused []error // guarded by mu: of each settled record, nil when it was written
	broken  error   // guarded by mu
}

// openWriter configures and opens a new destination.
func (c *checker) openWriter(settings map[string]string) *writer {
	c.Helper()
	w := &writer{checker: c, destination: c.destination()}
	c.must(w.destination.Configure(c.ctx, settings), "Configure")
	c.must(w.destination.Open(c.ctx, w.settle), "Open")
	return w
}

func (w *writer) settle(n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == 0 && w.broken == nil {
		w.broken = err
	}
	for range n {
		w.refused = append(w.refused, err)
	}
}

func (w *writer) settled() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refused)
}

// write passes the records to the destination.
func (w *writer) write(records ...record.Record) {
	w.Helper()
	w.must(w.destination.Write(w.ctx, record.NewBatch(records)), "Write of %d records", len(records))
}

// finish flushes the destination, checks that n records are settled, and ends it.
func (w *writer) finish(n int) []error {
	w.Helper()
	w.must(w.destination.Flush(w.ctx), "Flush")
	settled := w.settled()
	if len(settled) != n {
		w.Errorf("%d records are settled, want %d", len(settled), n)
	}
	w.teardown(w.destination, "Flush")
	if again := w.settled(); len(again) != len(settled) || w.broken != nil {
		w.Errorf("after Teardown %d records are settled and the error is %v", len(again), w.broken)
	}
	return settled
}

// allWritten checks that no record was refused.
func (c *checker) allWritten(settled []error) {
	c.Helper()
	for i, err := range settled {
		if err != nil {
			c.Errorf("record %d is refused: %v", i+1, err)
		}
	}
}

// holds checks the content of the destination.
func (c *checker) holds(settings map[string]string, want []string) {
	c.Helper()
	if c.host.Written == nil {
		return
	}
	if got := c.host.Written(c, settings); !slices.Equal(got, want) {
		c.Errorf("the destination holds %d records %.300q, want %d %.300q", len(got), got, len(want), want)
	}
}

// made returns record number i, a plain record.
func made(i int) record.Record {
	n := strconv.Itoa(i)
	return record.Record{
		Position: record.Position("p" + n), Operation: record.OperationCreate,
		Metadata: record.NewMetadata(map[string]string{record.KeyCollection: "plugintest",
			record.KeySourceConnectorID: sourceID}),
		Key: record.Raw([]byte("k" + n)), After: record.Raw([]byte(payload(i))),
	}
}

func payload(i int) string { return "record " + strconv.Itoa(i) }

// numbers returns the plain records from to to-1.
func numbers(from, to int) (records []record.Record, payloads []string) {
	for i := from; i < to; i++ {
		records, payloads = append(records, made(i)), append(payloads, payload(i))
	}
	return records, payloads
}

func checkDestinationLifecycle(c *checker) {
	settings := c.host.Target.Destination(c)
	d := c.destination()
	c.must(d.Configure(c.ctx, settings), "Configure")
	c.must(d.LifecycleOnCreated(c.ctx, settings), "LifecycleOnCreated")
	c.must(d.LifecycleOnUpdated(c.ctx, settings, settings), "LifecycleOnUpdated")
	c.must(d.Open(c.ctx, func(int, error) {}), "Open after lifecycle calls")
	c.teardown(d, "Open")
	d = c.destination()
	c.must(d.LifecycleOnDeleted(c.ctx, settings), "LifecycleOnDeleted of a connector that is not configured")
	c.teardown(d, "LifecycleOnDeleted")
	c.teardown(c.destination(), "nothing else")
}

func checkWrite(c *checker) {
	settings := c.host.Target.Destination(c)
	w := c.openWriter(settings)
	n := 0
	var all []string
	for _, size := range []int{1, 2, 7, 100, 1, 500} {
		records, payloads := numbers(n, n+size)
		w.write(records...)
		n, all = n+size, append(all, payloads...)
	}
	c.allWritten(w.finish(n))
	c.holds(settings, all)
}

// checkWriteAgain checks that a second run keeps the records of the first one.
func checkWriteAgain(c *checker) {
	settings := c.host.Target.Destination(c)
	for i := range 2 {
		w := c.openWriter(settings)
		records, _ := numbers(10*i, 10*i+10)
		w.write(records...)
		c.allWritten(w.finish(10))
	}
	_, payloads := numbers(0, 20)
	c.holds(settings, payloads)
}

func checkNothing(c *checker) {
	settings := c.host.Target.Destination(c)
	c.openWriter(settings).finish(0)
	c.holds(settings, nil)
}

// checkStrange checks that records of every shape are written or refused, and that the records around them are written.
func checkStrange(c *checker) {
	strange := map[string]func(*record.Record){
		"no key":        func(r *record.Record) { r.Key = record.Data{} },
		"empty payload": func(r *record.Record) { r.After = record.Raw([]byte{}) },
		"no payload":    func(r *record.Record) { r.After = record.Data{} },
		"delete": func(r *record.Record) {
			r.Operation, r.Before, r.After = record.OperationDelete, r.After, record.Data{}
		},
		"binary":         func(r *record.Record) { r.After = record.Raw([]byte("a\x00b\xffc\nd\"")) },
		"structured":     func(r *record.Record) { r.After = record.Structured(map[string]any{"a": "x", "b": nil}) },
		"structured key": func(r *record.Record) { r.Key = record.Structured(map[string]any{"id": "1"}) },
		"no metadata":    func(r *record.Record) { r.Metadata = nil },
		"long position": func(r *record.Record) {
			r.Position = slices.Repeat(record.Position("x"), record.MaxPosition)
		},
	}
	for name, change := range strange {
		w := c.openWriter(c.host.Target.Destination(c))
		r := made(1)
		change(&r)
		w.write(made(0), r, made(2))
		settled := w.finish(3)
		if len(settled) == 3 && (settled[0] != nil || settled[2] != nil) {
			c.Errorf("%s: the records around it are refused: %v, %v", name, settled[0], settled[2])
		}
	}
}

// checkOversized checks that a record that is too large for a message does not prevent others from being written.
func checkOversized(c *checker) {
	w := c.openWriter(c.host.Target.Destination(c))
	large := made(1)
	large.After = record.Raw(slices.Repeat([]byte("x"), 5<<20))
	w.write(made(0), large, made(2))
	settled := w.finish(3)
	if len(settled) == 3 && (settled[0] != nil || settled[2] != nil) {
		c.Errorf("the records around it are refused: %v, %v", settled[0], settled[2])
	}
}

func checkDestinationTeardown(c *checker) {
	w := c.openWriter(c.host.Target.Destination(c))
	c.teardown(w.destination, "Open")
	w = c.openWriter(c.host.Target.Destination(c))
	w.write(made(0))
	c.eventually("a record is settled", func() bool { return len(w.settled()) == 1 })
	c.teardown(w.destination, "Write")
}

// checkDestinationCrash checks that all records settled before a crash of the destination are in it, in order.
func checkDestinationCrash(c *checker) {
	const rounds, size = 5, 20
	settings := c.host.Target.Destination(c)
	at := 0 // settled
	for range rounds {
		w := c.openWriter(settings)
		records, _ := numbers(at, at+size)
		for i := range records {
			w.write(records[i])
		}
		c.eventually("a record is settled", func() bool { return len(w.settled()) > 0 })
		c.crash(w.destination.(*onceDestination).once)
		settled := w.settled()
		c.allWritten(settled)
		at += len(settled)
		c.kept(settings, at)
	}
}

// kept checks that the destination has the records up to n, first occurrences in order.
func (c *checker) kept(settings map[string]string, n int) {
	c.Helper()
	if c.host.Written == nil {
		return
	}
	next := 0
	for _, got := range c.host.Written(c, settings) {
		if got == payload(next) {
			next++
		}
	}
	if next < n {
		c.Fatalf("the destination settled %d records but holds only the first %d in order", n, next)
	}
}
