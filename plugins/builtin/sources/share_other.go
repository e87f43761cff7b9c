//go:build !unix

package sources

// share returns how many connections all sources of this process may hold.
func share() int64 { return 1 << 14 }
