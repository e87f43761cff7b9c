//go:build unix

package sources

import "golang.org/x/sys/unix"

// share returns how many connections all sources of this process may hold: half of the file descriptors that it may
// have.
func share() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fallback
	}
	return int64(min(limit.Cur, 1<<30)) / 2
}

const fallback = 512
