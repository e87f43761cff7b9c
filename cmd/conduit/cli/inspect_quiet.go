package cli

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// quietTime is the time without a record after which the reason is shown.
const quietTime = 2 * time.Second

// quiet prints the reason why no records arrive.
type quiet struct {
	*Remote
	connector rest.Connector
	filtered  bool
	seen      atomic.Int64 // records shown
}

// run prints the reason whenever it changes, until ctx ends.
func (q *quiet) run(ctx context.Context) {
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	last, said, idle := int64(0), "", time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n := q.seen.Load(); n != last {
			last, said = n, ""
			continue
		}
		status, err := q.Status(ctx, q.connector.PipelineID)
		if err != nil {
			continue // the inspector reports when the agent is gone
		}
		if why := silence(&status, q.connector.ID, q.filtered, &idle); why != "" && why != said && ctx.Err() == nil {
			said = why
			fmt.Fprintf(q.Stderr, "conduit: %s\n", terminal.Clean(why))
		}
	}
}
