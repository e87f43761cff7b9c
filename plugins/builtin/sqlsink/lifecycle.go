package sqlsink

import "context"

// Lifecycle removes the positions of a connector, with other settings than Configure's. A destination embeds it to
// implement its lifecycle methods.
type Lifecycle func(ctx context.Context, settings map[string]string) error

// LifecycleOnCreated implements sdk.Destination. It removes the positions of a former connector with the same id.
func (l Lifecycle) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return l(ctx, settings)
}

// LifecycleOnUpdated implements sdk.Destination. It keeps the positions.
func (l Lifecycle) LifecycleOnUpdated(context.Context, map[string]string, map[string]string) error {
	return nil
}

// LifecycleOnDeleted implements sdk.Destination.
func (l Lifecycle) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return l(ctx, settings)
}
