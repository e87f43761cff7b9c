package host

import (
	"context"
	"log/slog"
	"time"
)

// placeInterval is how often the place of the store's files is checked.
const placeInterval = 2 * time.Second

// StoreGuard reports in the log when the files of the store were deleted or replaced, and
// when they are in their place again. What runs goes on: that is no worse, and an operator may
// want to save what the open files hold.
type StoreGuard struct {
	InPlace func() error // of the store
	Changed func()       // called when it turned out differently than before
	Log     *slog.Logger
}

// Run checks until ctx ends, then it returns nil.
func (g *StoreGuard) Run(ctx context.Context) error {
	tick := time.NewTicker(placeInterval)
	defer tick.Stop()
	moved := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
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
