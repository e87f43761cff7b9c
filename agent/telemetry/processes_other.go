//go:build !linux

package telemetry

// usageOf returns false: only Linux has /proc to read it from.
func usageOf(int) (usage, bool) { return usage{}, false }
