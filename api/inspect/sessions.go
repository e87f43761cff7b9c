package inspect

import "golang.org/x/sys/unix"

// files returns the maximum number of file descriptors of the process.
func files() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fewFiles
	}
	return uint64(limit.Cur)
}

const fewFiles = 1024
