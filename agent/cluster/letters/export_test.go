package letters

import "time"

// Hasten has what failed be tried again at once.
func Hasten() { retryPause = time.Millisecond }

// MaxPacked is the most bytes that are written at once.
const MaxPacked = maxPacked

// HostIDs is what ids on the disk of an agent begin behind.
const HostIDs = hostIDs
