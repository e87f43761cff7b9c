// Package prove tests the promises of the agent with pipelines of a user, on their host: it runs a separate agent with
// stand-ins for outside systems, makes faults, and counts by ledger which records were lost, repeated or reordered.
package prove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// Options select the pipelines to prove and the effort.
type Options struct {
	Pipelines  []spec.Pipeline
	Registry   *processor.Registry // of the processors of the agent
	Processors string              // directory of WebAssembly modules
	Command    []string            // runs an agent; its settings come in the environment
	Env        []string            // of the agent
	Dir        string              // working directory, created and removed; "": a temporary one
	Kills      int                 // number of times to kill -9 the agent
	Time       time.Duration       // maximum duration
	Seed       uint64              // of the faults
	Progress   io.Writer           // receives progress messages for people
	Sabotage   string              // breaks the promise on purpose: lose, double or reorder
}

// Skipped is a fault that is not possible here.
type Skipped struct {
	Fault string `json:"fault"`
	Why   string `json:"why"`
}

// Faults counts the faults that were made.
type Faults struct {
	Kills         int `json:"kills"`
	Terminations  int `json:"terminations"`
	PowerCuts     int `json:"powerCuts"`
	FullDisks     int `json:"fullDisks"`
	ClockJumps    int `json:"clockJumps"`
	Pauses        int `json:"pauses"`
	PluginCrashes int `json:"pluginCrashes"`
	PluginHangs   int `json:"pluginHangs"`
	Edits         int `json:"edits"`
}

// hard returns the number of faults that may make a stream go back.
func (f *Faults) hard() int64 {
	return int64(f.Kills + f.PowerCuts + f.FullDisks + f.Pauses + f.PluginCrashes + f.PluginHangs)
}

// Report is the result.
type Report struct {
	Held     bool      `json:"held"` // all promises were kept
	Seed     uint64    `json:"seed"`
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`
	Asked    int       `json:"killsAsked"`
	Faults   Faults    `json:"faults"`
	Skipped  []Skipped `json:"skipped"`
	Notes    []Note    `json:"notes"`
	Flows    []Flow    `json:"flows"`
	Broken   []string  `json:"broken"` // broken promises
	AgentLog string    `json:"agentLog,omitempty"`
}

// maxRepeated is the maximum number of records that a crash may repeat: those that may be outstanding.
const maxRepeated = 1 << 17

// Run tests the promises until all kills are done or the time is over.
func Run(ctx context.Context, o Options) (*Report, error) {
	dir, err := os.MkdirTemp(o.Dir, "conduit-prove-")
	if err != nil {
		return nil, fmt.Errorf("cannot create a working directory: %w", err)
	}
	c := &campaign{Options: o, dir: dir, random: rand.New(rand.NewPCG(o.Seed, 0)),
		ledgers: ledgers{filepath.Join(dir, "ledger")},
		report: Report{Seed: o.Seed, Began: time.Now(), Asked: o.Kills, Skipped: []Skipped{}, Notes: []Note{},
			Broken: []string{}}}
	c.pipelines, c.report.Notes = replaced(ctx, o.Pipelines, c.ledgers, o.Registry, o.Sabotage)
	if c.flows = flowsOf(c.pipelines); len(c.flows) == 0 {
		return nil,
			errors.Join(errors.New("cannot prove anything: no pipeline has a source and a destination"),
				os.RemoveAll(dir))
	}
	err = c.prepare()
	if err == nil {
		err = c.run(ctx)
	}
	if err == nil || errors.Is(err, errNoProgress) {
		err = c.judge()
	}
	c.report.Seconds = time.Since(c.report.Began).Seconds()
	if c.report.Held = err == nil && len(c.report.Broken) == 0; !c.report.Held {
		c.report.AgentLog = filepath.Join(dir, "agent.log")
		return &c.report, errors.Join(err, c.state.Close())
	}
	return &c.report, errors.Join(c.state.Close(), os.RemoveAll(dir))
}

// judge compares the ledgers with the promises.
func (c *campaign) judge() error {
	flows, objected, err := c.ledgers.audit(c.flows)
	if err != nil {
		return err
	}
	c.report.Flows = flows
	c.report.Broken = append(c.report.Broken, objected...)
	broken := func(f *Flow, format string, args ...any) {
		where := fmt.Sprintf("pipeline %s, from %s to %s: ", f.Pipeline, f.Source, f.Destination)
		c.report.Broken = append(c.report.Broken, where+fmt.Sprintf(format, args...))
	}
	hard := c.report.Faults.hard()
	for i := range flows {
		f := &flows[i]
		if f.Lost > 0 {
			broken(f, "%d records are lost", f.Lost)
		}
		if f.Reordered > 0 {
			broken(f, "%d records are out of order", f.Reordered)
		}
		if f.Rewinds > hard {
			broken(f, "the stream went back %d times with %d faults that may make it do so", f.Rewinds, hard)
		}
		if f.Longest > maxRepeated {
			broken(f, "%d records in a row are repeated, at most %d may be", f.Longest, maxRepeated)
		}
	}
	return nil
}
