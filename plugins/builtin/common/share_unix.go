//go:build unix

package common

import "golang.org/x/sys/unix"

// share returns the maximum number of connections of all sources in this process: half of the limit for file
// descriptors.
func share() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fallback
	}
	return int64(min(limit.Cur, 1<<30)) / 2
}

const fallback = 512
