//go:build !unix

package connections

// share returns how many connections all sources of this process may hold.
func share() int64 { return 1 << 14 }
