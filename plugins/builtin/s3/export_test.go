package s3

import "context"

// SetMostKnown sets the maximum number of objects in a window, and returns a function that restores it.
func SetMostKnown(n int) (restore func()) {
	former := maxKnown
	maxKnown = n
	return func() { maxKnown = former }
}

// SetMostNewest sets the maximum number of objects that a position lists, and returns a function that restores it.
func SetMostNewest(n int) (restore func()) {
	former := maxNewest
	maxNewest = n
	return func() { maxNewest = former }
}

// SetKeptStages sets how many numbers keep their staged objects, and returns a function that restores it.
func SetKeptStages(n int64) (restore func()) {
	former := keptStages
	keptStages = n
	return func() { keptStages = former }
}

// LedgerDir returns the default directory for the positions of a destination.
func LedgerDir(ctx context.Context) string { return (&destinationSettings{}).ledger(ctx, nil).dir }
