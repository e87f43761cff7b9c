package process

import "runtime/debug"

// LimitMemory makes the Go runtime keep this process within limit bytes, 0 for no limit: the garbage collector works
// harder near the limit. The runtime counts neither the pages of the executable nor the allocations of SQLite, for
// which LimitMemory reserves a quarter, 192 MiB at most.
func LimitMemory(limit int64) {
	if limit > 0 {
		returnLargeBlocks()
		debug.SetMemoryLimit(limit - min(limit/4, 192<<20))
	}
}

// MemoryLimitOf returns the memory limit in bytes for the setting memory.limit, 0 for none.
func MemoryLimitOf(setting int) int64 {
	switch {
	case setting > 0:
		return int64(setting)
	case setting < 0:
		return 0
	}
	return MemoryLimit(0) / 10 * 9
}
