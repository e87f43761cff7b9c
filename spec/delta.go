package spec

// Delta is how a collection changed since a revision of it.
type Delta[T any] struct {
	Revision int64    // that this is current to; never 0
	All      bool     // it is not known what changed: Rows are all there are
	Rows     []T      // that are new or were replaced, by key
	Gone     []string // keys of those that are no more; nil with All
}
