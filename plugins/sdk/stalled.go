package sdk

import "context"

type stalledKey struct{}

// WithStalled returns a context for Reads of a source. f is called when the source is stalled.
func WithStalled(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, stalledKey{}, f)
}

// Stalled tells the host that the Read with this ctx is about to wait until records that were read are acknowledged.
// The host then completes batches and windows that wait for more records. It is for sources whose limit is not a number
// of records; see LimitedSource. It may be called again, and never waits.
func Stalled(ctx context.Context) {
	if f, ok := ctx.Value(stalledKey{}).(func()); ok {
		f()
	}
}
