package sqlsink

import "context"

// Lifecycle removes the positions of a connector, with settings that are not those of Configure. It is embedded in
// a destination, whose lifecycle calls it makes.
type Lifecycle func(ctx context.Context, settings map[string]string) error

// LifecycleOnCreated implements sdk.Destination: positions of a former connector of this id are none
// of this one's.
func (l Lifecycle) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return l(ctx, settings)
}

// LifecycleOnUpdated implements sdk.Destination: positions stay.
func (l Lifecycle) LifecycleOnUpdated(context.Context, map[string]string, map[string]string) error {
	return nil
}

// LifecycleOnDeleted implements sdk.Destination.
func (l Lifecycle) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return l(ctx, settings)
}
