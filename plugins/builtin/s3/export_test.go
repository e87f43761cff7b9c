package s3

import "context"

// SetMostKnown sets how many objects a window knows, and returns what sets it back.
func SetMostKnown(n int) (restore func()) {
	former := mostKnown
	mostKnown = n
	return func() { mostKnown = former }
}

// LedgerDir returns where the positions of a destination are that has no setting for it.
func LedgerDir(ctx context.Context) string { return (&destinationSettings{}).ledger(ctx, nil).dir }
