package host

import "runtime/debug"

// LimitMemory has the Go runtime keep this process within limit bytes, 0 for none: the
// garbage collector works harder before they are used. The runtime counts neither the pages
// of the executable nor what SQLite allocates, for which a quarter is left, 192 MiB at most.
func LimitMemory(limit int64) {
	if limit > 0 {
		returnLargeBlocks()
		debug.SetMemoryLimit(limit - min(limit/4, 192<<20))
	}
}

// MemoryLimitOf returns the memory limit in bytes that the setting memory.limit means, 0 for none.
func MemoryLimitOf(setting int) int64 {
	switch {
	case setting > 0:
		return int64(setting)
	case setting < 0:
		return 0
	}
	return MemoryLimit(0) / 10 * 9
}
