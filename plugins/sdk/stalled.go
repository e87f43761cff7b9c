package sdk

import "context"

type stalledKey struct{}

// WithStalled returns a context for Reads of a source that calls f when the source is stalled.
func WithStalled(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, stalledKey{}, f)
}

// Stalled tells the host that the Read with this ctx is going to wait, and returns nothing before records that were
// read are acknowledged: the host then completes batches and windows that wait for more. It is for sources
// whose limit is not a number of records; see LimitedSource. It may be called again, and never waits.
func Stalled(ctx context.Context) {
	if f, ok := ctx.Value(stalledKey{}).(func()); ok {
		f()
	}
}
