package spec

// Delta is the changes of a collection since a revision.
type Delta[T any] struct {
	Revision int64    // the current revision; never 0
	All      bool     // the changes are unknown: Rows is the whole collection
	Rows     []*T     // new or replaced rows, by key; the receiver does not modify them
	Gone     []string // keys of deleted rows; nil with All
}
