package spec

// Delta is the changes of a collection since a revision.
type Delta[T any] struct {
	Revision int64    // that this is current to; never 0
	All      bool     // the changes are unknown: Rows is the whole collection
	Rows     []T      // that are new or were replaced, by key
	Gone     []string // keys of deleted rows; nil with All
}
