//go:build !unix

package common

// share returns the maximum number of connections of all sources in this process.
func share() int64 { return 1 << 14 }
