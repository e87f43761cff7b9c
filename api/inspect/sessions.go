package inspect

import "golang.org/x/sys/unix"

// files returns how many file descriptors the process may have.
func files() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fewFiles
	}
	return uint64(limit.Cur)
}

const fewFiles = 1024
