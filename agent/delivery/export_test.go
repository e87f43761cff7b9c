package delivery

import (
	"context"
	"time"
)

// Sample observes every pipeline once.
func (w *Watch) Sample(ctx context.Context, now time.Time) { w.sample(ctx, now) }
