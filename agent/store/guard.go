package store

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// placeInterval is the default interval between checks that the files of the store are in place.
const placeInterval = 2 * time.Second

// Guard logs when the files of the store were deleted or replaced, or cannot be written, and when that is over.
// Pipelines keep running: that makes nothing worse, and an operator may want to save the content of the open files.
type Guard struct {
	InPlace func() error                    // of the store
	Fault   func() error                    // returns the error of the last attempt to save
	Past    func() error                    // returns the error of a failed attempt to save since its last call
	Probe   func(ctx context.Context) error // tries to save something
	Retry   func()                          // called when saving works again
	Changed func()                          // called when the result of a check has changed
	Log     *slog.Logger

	Interval time.Duration // between two checks; 0: 2 seconds
}

// Run checks until ctx ends, then it returns nil.
func (g *Guard) Run(ctx context.Context) error {
	tick := time.NewTicker(cmp.Or(g.Interval, placeInterval))
	defer tick.Stop()
	moved, failing := false, false
	for {
		select {
		case <-ctx.Done():
			g.reportPast(failing)
			return nil
		case <-tick.C:
		}
		before := failing
		failing = g.observeFault(ctx, failing)
		g.reportPast(before || failing)
		err := g.InPlace()
		if (err != nil) == moved {
			continue
		}
		moved = err != nil
		if moved {
			g.Log.Error("the store is in danger, pipelines continue", "component", "agent", "err", err)
		} else {
			g.Log.Info("the store is in its place again", "component", "agent")
		}
		g.Changed()
	}
}

// reportPast reports a fault that was over before it was observed: a failing disk begins this way. It does not report
// a fault that was already reported. Operations that failed because of the fault are retried.
func (g *Guard) reportPast(reported bool) {
	if err := g.Past(); err != nil && !reported {
		g.Log.Warn("saving the state of the agent failed once, and succeeded when retried",
			"component", "agent", "err", err)
		g.Retry()
	}
}

// observeFault reports that saving fails, unless failing says that this is known, and probes until it works again.
func (g *Guard) observeFault(ctx context.Context, failing bool) bool {
	err := g.Fault()
	if err != nil || failing { // a small save may have passed while larger ones fail
		err = g.Probe(ctx)
	}
	if ctx.Err() != nil || (err != nil) == failing {
		return failing
	}
	if err != nil {
		g.Log.Error("cannot save the state of the agent: retrying, nothing that depends on it is acknowledged",
			"component", "agent", "err", err)
	} else {
		g.Log.Info("the state of the agent can be saved again", "component", "agent")
		g.Retry()
	}
	g.Changed()
	return err != nil
}
