package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// flow is an agent that moves the records of a ledger.
type flow struct {
	t        *testing.T
	dir      string
	system   *System
	proxy    *network.Proxy // nil without a network
	pipeline spec.Pipeline
	agent    *process
	ledger   ledger
	promise  promise
	produce  func(ctx context.Context, first, n int) error
	interval time.Duration
	arrived  func(ctx context.Context) ([]int, error)
	snapshot bool                                                 // of Source
	repeated int                                                  // records so far
	lost     int                                                  // records so far
	times    int                                                  // faults per round; 0: one
	beside   func(ctx context.Context, api func() *client.Client) // of Source
	writes   bool                                                 // into the system

	target  atomic.Int64 // number up to which records must arrive before the next fault
	reached atomic.Int64 // highest number that has arrived
}

// timeout limits the time without an arrival after a fault. The rate of arrivals depends on the machine.
const timeout = 60 * time.Second

// start writes the pipeline file and starts the agent.
func (f *flow) start() {
	path := filepath.Join(f.dir, "pipelines", "kill.yaml")
	if err := os.WriteFile(path, spec.Marshal(f.pipeline), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := f.agent.start(); err != nil {
		f.t.Fatal(err)
	}
}

// passSnapshot produces one record and stops the agent once the record has arrived, so that the position says that the
// snapshot has been read.
func (f *flow) passSnapshot() error {
	f.produceSome(1)
	if _, err := f.catchUp(); err != nil {
		return err
	}
	return f.stopAgent()
}

// maxBacklog returns how many records may be outstanding while more are produced: a larger backlog of a slow connector
// takes longer after each fault, and proves no more.
func maxBacklog() int64 {
	if *rounds < manyRounds {
		return 300
	}
	return 40
}

// maxAtOnce is the maximum number of records per call of Produce.
const maxAtOnce = 20

// feed produces records until the returned function is called. That function returns when every record whose production
// began is durable.
func (f *flow) feed() (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if int64(f.ledger.count()) < max(f.target.Load(), f.reached.Load()+maxBacklog()) {
				f.produceSome(1 + rand.IntN(maxAtOnce))
			}
			pause(ctx, max(f.interval, 10*time.Millisecond))
		}
	})
	var once sync.Once
	return func() { once.Do(func() { cancel(); done.Wait() }) }
}

// produceSome produces n records, with as many attempts as that takes.
func (f *flow) produceSome(n int) {
	first := f.ledger.count() + 1
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
		err := f.produce(ctx, first, n)
		cancel()
		if err == nil {
			f.ledger.add(n, tries > 0)
			return
		}
		if f.t.Context().Err() != nil {
			return
		}
		pause(f.t.Context(), 50*time.Millisecond)
	}
}

// produces returns when n more records have been produced.
func (f *flow) produces(n int) {
	want := f.ledger.count() + n
	f.target.Store(int64(want))
	wait.Until(f.t.Context(), func() bool { return f.ledger.count() >= want })
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// grows waits until more records have arrived than at the time of the call.
func (f *flow) grows() error {
	before := -1
	return f.until(func(got []int) bool {
		if before < 0 {
			before = len(got)
		}
		return len(got) > before
	})
}

// recovers waits after a fault until more records arrive. If the fault may lose records, it waits for one that was
// produced later: earlier ones may arrive although the next ones are lost.
func (f *flow) recovers() error {
	if !f.promise.lossy {
		return f.grows()
	}
	return f.passes()
}

// passes waits until a record arrives that is produced after the call.
func (f *flow) passes() error {
	later := f.ledger.count() + maxAtOnce // the production in progress may have fewer
	f.produces(2 * maxAtOnce)
	return f.until(func(got []int) bool {
		if f.promise.lossy {
			f.target.Store(int64(f.ledger.count() + maxAtOnce)) // all produced so far may be lost
		}
		return len(got) > 0 && slices.Max(got) > later
	})
}

// catchUp waits until the last number has arrived, and returns all numbers that have arrived.
func (f *flow) catchUp() (all []int, err error) {
	want := f.ledger.count()
	err = f.until(func(got []int) bool {
		all = got
		if f.promise.lossy {
			return want == 0 || len(got) > 0 && slices.Max(got) >= want
		}
		return len(got) >= want && len(distinct(got)) >= want
	})
	if errors.Is(err, errLate) {
		return all, nil // the ledger reports the missing numbers
	}
	return all, err
}

func distinct(all []int) map[int]struct{} {
	set := make(map[int]struct{}, len(all))
	for _, n := range all {
		set[n] = struct{}{}
	}
	return set
}

var errLate = errors.New("waited too long")

// until waits until enough records have arrived, as long as more keep arriving. A system that cannot be queried now may
// answer later.
func (f *flow) until(enough func(got []int) bool) error {
	ctx, stop := context.WithCancel(f.t.Context())
	defer stop()
	late := time.AfterFunc(timeout, stop)
	defer late.Stop()
	var got []int
	var err error
	most := 0
	if wait.Until(ctx, func() bool {
		if got, err = f.ask(); len(got) > most {
			most = len(got)
			late.Reset(timeout)
		}
		return err == nil && enough(got)
	}) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("%w: %d arrived", errLate, len(got))
	}
	return fmt.Errorf("%w: %d arrived: %w", errLate, len(got), err)
}

// maxPause is the longest pause of a flow between two queries. A slow query may be due to other flows, too.
const maxPause = 2 * time.Second

// ask returns the records that have arrived. Where a query takes less than 200 ms, polling uses at most a tenth of a
// CPU: agents, proxies and servers of other flows share the CPUs.
func (f *flow) ask() ([]int, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	got, err := f.arrived(ctx)
	if len(got) > 0 {
		f.reached.Store(int64(slices.Max(got)))
	}
	pause(ctx, min(9*time.Since(begin), maxPause))
	return got, err
}

func (f *flow) killAgent() error {
	f.agent.kill()
	return f.agent.start()
}

func (f *flow) stopAgent() error {
	if err := f.agent.terminate(); err != nil {
		return err
	}
	return f.agent.start()
}

func (f *flow) killServer() error {
	f.system.Server.Kill()
	return f.system.Server.Start(f.t.Context())
}

func (f *flow) restartServer() error {
	f.system.Server.Stop()
	return f.system.Server.Start(f.t.Context())
}

func (f *flow) cut() error {
	f.proxy.Cut()
	return nil
}

// faultTime is the duration of a network fault.
const faultTime = 500 * time.Millisecond

func (f *flow) refuse() error {
	f.proxy.Refuse(true)
	f.proxy.Cut()
	pause(f.t.Context(), faultTime)
	f.proxy.Heal()
	return nil
}

func (f *flow) delay() error {
	f.proxy.Delay(20 * time.Millisecond)
	pause(f.t.Context(), 2*faultTime)
	f.proxy.Heal()
	return nil
}

// stall holds the connections and then cuts them, as a router does that lost their state.
func (f *flow) stall() error {
	f.proxy.Hold(true)
	pause(f.t.Context(), 2*faultTime)
	f.proxy.Cut()
	f.proxy.Heal()
	return nil
}

// halfOpen makes the connections half-open while data is in flight on one, and waits until a record arrives
// that was produced later: only the connector itself can end such a connection.
func (f *flow) halfOpen() error {
	if err := f.grows(); err != nil {
		return err
	}
	f.proxy.Hold(true)
	ctx, cancel := context.WithTimeout(f.t.Context(), timeout)
	defer cancel()
	if !wait.Until(ctx, func() bool {
		f.target.Store(int64(f.ledger.count() + maxAtOnce)) // nobody queries the arrivals meanwhile
		return f.proxy.Holds() > 0
	}) {
		return fmt.Errorf("nothing is sent over the network: %w", ctx.Err())
	}
	began := time.Now()
	n := f.lose()
	f.proxy.Hold(false)
	if err := f.passes(); err != nil {
		return fmt.Errorf("a half-open connection is not given up: %w", err)
	}
	f.t.Logf("%s: records arrive %.1f s after %d connections became half-open", f.t.Name(), time.Since(began).Seconds(),
		n)
	return nil
}

// lose makes the connections half-open.
func (f *flow) lose() int {
	if f.system.ByKernel {
		return f.proxy.Unplug(f.t)
	}
	return f.proxy.Blackhole()
}

func (f *flow) rotate() error { return f.system.Rotate(f.t.Context()) }

// everything makes three faults, one after the other.
func (f *flow) everything() error {
	for range 3 {
		one := faults[rand.IntN(len(faults))]
		if !one.needs(f) || !*all && !one.few {
			continue
		}
		if err := one.make(f); err != nil {
			return fmt.Errorf("%s: %w", one.Fault, err)
		}
	}
	return nil
}
