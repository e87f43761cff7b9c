package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// campaign is the state of a Run.
type campaign struct {
	Options
	dir       string
	random    *rand.Rand // owned by run
	ledgers   ledgers
	pipelines []spec.Pipeline
	flows     []Flow
	state     *Disk // file system of the agent's state
	clocks    bool  // the agent can run with other clocks
	report    Report
}

// Limits on the time that the agent may take.
const (
	progressTimeout = 60 * time.Second
	endTimeout      = 60 * time.Second
	// finalTime is reserved for the end, without faults.
	finalTime = 20 * time.Second
)

// prepare prepares the directory.
func (c *campaign) prepare() error {
	for _, name := range []string{"pipelines", "connectors", "ledger", "state"} {
		if err := os.Mkdir(filepath.Join(c.dir, name), 0o700); err != nil {
			return fmt.Errorf("cannot create a working directory: %w", err)
		}
	}
	if err := c.install(); err != nil {
		return fmt.Errorf("cannot build the stand-in for outside systems: %w", err)
	}
	for i := range c.pipelines {
		if err := c.write(&c.pipelines[i]); err != nil {
			return err
		}
	}
	var why string
	c.state, why = New(filepath.Join(c.dir, "image"), filepath.Join(c.dir, "state"))
	if why != "" {
		c.skip("power cuts", why)
		c.skip("a full disk", why)
	}
	if c.clocks, why = clocks(); why != "" {
		c.skip("jumps of the monotonic clock", why)
	}
	c.skip("jumps of the time of day", "they would affect the host; the agent uses the time of day for no decision")
	return nil
}

func (c *campaign) skip(fault, why string) {
	c.report.Skipped = append(c.report.Skipped, Skipped{fault, why})
}

// install makes this executable a connector of the agent, by a link if possible.
func (c *campaign) install() error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	to := filepath.Join(c.dir, "connectors", standIn)
	if os.Link(own, to) == nil {
		return nil
	}
	from, err := os.Open(own)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// path returns the path of the file of a pipeline.
func (c *campaign) path(p *spec.Pipeline) string {
	return filepath.Join(c.dir, "pipelines", fmt.Sprintf("%s.yaml", ledgers{}.path(p.ID)))
}

// write saves the file of a pipeline the way most editors do.
func (c *campaign) write(p *spec.Pipeline) error { return save(c.path(p), spec.Marshal(*p)) }

func save(path string, content []byte) error {
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("cannot save a pipeline file: %w", err)
	}
	return os.Rename(temporary, path)
}

// run makes faults until all kills are done or the time is over, and then waits until all records arrive.
func (c *campaign) run(ctx context.Context) error {
	deadline, reported := c.report.Began.Add(c.Time-finalTime), 0
	for c.report.Faults.Kills < c.Kills && time.Now().Before(deadline) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.round(ctx); err != nil {
			return err
		}
		if n := c.report.Faults.Kills; n >= reported+10 && c.Progress != nil {
			reported = n
			fmt.Fprintf(c.Progress, "%d of %d kills, %d power cuts, %d edits\n", n, c.Kills, c.report.Faults.PowerCuts,
				c.report.Faults.Edits)
		}
	}
	if n := c.report.Faults.Kills; n < c.Kills {
		c.report.Notes = append(c.report.Notes,
			Note{"kills", fmt.Sprintf("%d of %d: the time limit was reached", n, c.Kills)})
	}
	return c.end(ctx)
}

// round runs the agent for a while, makes faults, and kills it or cuts the power.
func (c *campaign) round(ctx context.Context) error {
	early := c.random.IntN(3) == 0
	a, err := c.start()
	if err != nil {
		return err
	}
	defer a.kill()
	if early { // during startup
		if err := pause(ctx, c.upTo(300*time.Millisecond)); err != nil {
			return err
		}
	} else if err := c.disturb(ctx, a); err != nil {
		return err
	}
	if c.state.Separate() && c.random.IntN(8) == 0 {
		c.report.Faults.PowerCuts++
		if err := c.state.Cut(); err != nil {
			return err
		}
		a.kill()
		return c.state.Restore()
	}
	c.report.Faults.Kills++
	a.kill()
	return nil
}

// disturb waits until records arrive, and makes faults while files are edited.
func (c *campaign) disturb(ctx context.Context, a *agentProcess) error {
	if err := c.grows(ctx, a); err != nil {
		return err
	}
	editing, stop := context.WithCancel(ctx)
	var edited error
	var editor sync.WaitGroup
	random := rand.New(rand.NewPCG(c.random.Uint64(), 0))
	editor.Go(func() { edited = c.edit(editing, random) })
	err := c.fault(ctx, a)
	if err == nil {
		err = pause(ctx, c.moment())
	}
	stop()
	editor.Wait()
	return errors.Join(err, edited)
}

// end waits until all records arrive without faults, stops the agent, and checks that a restart then repeats nothing.
func (c *campaign) end(ctx context.Context) error {
	var repeated []int64
	for last := range 2 {
		a, err := c.start()
		if err != nil {
			return err
		}
		if err := c.goesOn(ctx, a); err != nil {
			a.kill()
			return err
		}
		c.report.Faults.Terminations++
		if err := a.terminate(); err != nil {
			c.report.Broken = append(c.report.Broken,
				fmt.Sprintf("the agent did not end as it should after SIGTERM: %v", err))
		}
		flows, _, err := c.ledgers.audit(c.flows)
		if err != nil {
			return err
		}
		for i := range flows {
			f := &flows[i]
			if last == 0 {
				repeated = append(repeated, f.Doubled)
			} else if more := f.Doubled - repeated[i]; more > 0 {
				c.report.Broken = append(c.report.Broken,
					fmt.Sprintf("pipeline %s, from %s to %s: %d records are repeated after a stop with SIGTERM",
						f.Pipeline, f.Source, f.Destination, more))
			}
		}
	}
	return nil
}

var errNoProgress = errors.New("nothing arrives")

// grows waits until more records arrive at any destination.
func (c *campaign) grows(ctx context.Context, a *agentProcess) error {
	var before []int64
	for _, f := range c.flows {
		before = append(before, c.ledgers.size(f.Pipeline+":"+f.Destination))
	}
	return c.until(ctx, a, func() (bool, error) {
		for i, f := range c.flows {
			if c.ledgers.size(f.Pipeline+":"+f.Destination) > before[i] {
				return true, nil
			}
		}
		return false, nil
	})
}

// goesOn waits until new records, after the repeated ones, arrive on every flow.
func (c *campaign) goesOn(ctx context.Context, a *agentProcess) error {
	before, _, err := c.ledgers.audit(c.flows)
	if err != nil {
		return err
	}
	return c.until(ctx, a, func() (bool, error) {
		now, _, err := c.ledgers.audit(c.flows)
		for i := range now {
			if now[i].last <= before[i].last {
				return false, err
			}
		}
		return true, err
	})
}

// until waits until done returns true, which must happen without a fault.
func (c *campaign) until(ctx context.Context, a *agentProcess, done func() (bool, error)) error {
	for began := time.Now(); ; {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if a.ended() {
			return fmt.Errorf("the agent ended by itself: %w", cmp.Or(a.err, errors.New("exit status 0")))
		}
		if time.Since(began) > progressTimeout {
			c.report.Broken = append(c.report.Broken, fmt.Sprintf("%v for %v although there is no fault", errNoProgress,
				progressTimeout))
			return errNoProgress
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *campaign) upTo(d time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(d)))
}

// soon returns a random duration below d: half of the durations are at most an eighth of d.
func (c *campaign) soon(d time.Duration) time.Duration {
	share := c.random.Float64()
	return time.Duration(share * share * share * float64(d))
}

// moment returns how long an agent runs: mostly some tens of milliseconds, a few times seconds.
func (c *campaign) moment() time.Duration {
	if c.random.IntN(50) == 0 {
		return c.upTo(3 * time.Second)
	}
	return c.soon(400 * time.Millisecond)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
