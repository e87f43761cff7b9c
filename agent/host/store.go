package host

import (
	"context"
	"log/slog"
	"time"
)

// placeInterval is how often the place of the store's files is checked.
const placeInterval = 2 * time.Second

// StoreGuard reports in the log when the files of the store were deleted or replaced, or cannot be
// written, and when that is over. What runs goes on: that is no worse, and an operator may
// want to save what the open files hold.
type StoreGuard struct {
	InPlace func() error                    // of the store
	Fault   func() error                    // why something could not be saved when that was tried last
	Past    func() error                    // why something could not be saved since it was called last
	Probe   func(ctx context.Context) error // tries to save something
	Retry   func()                          // called when it can be saved again
	Changed func()                          // called when either turned out differently than before
	Log     *slog.Logger
}

// Run checks until ctx ends, then it returns nil.
func (g *StoreGuard) Run(ctx context.Context) error {
	tick := time.NewTicker(placeInterval)
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
			g.Log.Error("the store is in danger, the pipelines go on", "component", "agent", "err", err)
		} else {
			g.Log.Info("the store is in its place again", "component", "agent")
		}
		g.Changed()
	}
}

// reportPast reports a fault that was over before it was observed: it is how a disk begins to fail. One that
// was reported is not reported again. What failed because of it is tried again.
func (g *StoreGuard) reportPast(reported bool) {
	if err := g.Past(); err != nil && !reported {
		g.Log.Warn("the state of the agent could not be saved, and was when that was tried again", "component", "agent", "err", err)
		g.Retry()
	}
}

// observeFault reports when something cannot be saved, failing says whether that is known, and
// tries again until it can.
func (g *StoreGuard) observeFault(ctx context.Context, failing bool) bool {
	err := g.Fault()
	if err != nil || failing { // a small save may have passed where others do not
		err = g.Probe(ctx)
	}
	if ctx.Err() != nil || (err != nil) == failing {
		return failing
	}
	if err != nil {
		g.Log.Error("the state of the agent cannot be saved: what needs that is not acknowledged and is tried again", "component", "agent", "err", err)
	} else {
		g.Log.Info("the state of the agent is saved again", "component", "agent")
		g.Retry()
	}
	g.Changed()
	return err != nil
}
