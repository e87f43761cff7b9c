//go:build !linux

package telemetry

// usageOf returns false: only Linux tells without another program being run.
func usageOf(int) (usage, bool) { return usage{}, false }
