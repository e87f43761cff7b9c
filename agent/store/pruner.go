package store

import (
	"context"
	"log/slog"
	"time"
)

// pruneInterval is the interval between removals of history that is too old. Excess history is removed when a pipeline
// is deleted.
const pruneInterval = time.Hour

// Pruner removes the history of deleted pipelines when it is too old.
type Pruner struct {
	Prune func(ctx context.Context) error // of the store
	Log   *slog.Logger
}

// Run prunes at once, and then at intervals until ctx ends. Then it returns nil.
func (p *Pruner) Run(ctx context.Context) error {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		if err := p.Prune(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("cannot prune history, trying again later", "component", "agent", "err",
				err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
