package javascript

import "time"

// SetMaxNativeDepth sets the bound for nested calls of built-in functions until restore is called.
func SetMaxNativeDepth(n int) (restore func()) {
	before := maxNativeDepth
	maxNativeDepth = n
	return func() { maxNativeDepth = before }
}

// Compile compiles a script.
func Compile(text string) error {
	_, err := compile("script", text)
	return err
}

// SetGuardClock sets the clock of guards, and the interval between their checks, until restore is called.
func SetGuardClock(now func() time.Time, tick time.Duration) (restore func()) {
	clock, interval := guardNow, guardTick
	guardNow, guardTick = now, tick
	return func() { guardNow, guardTick = clock, interval }
}

// IsLarge reports whether a heap is larger than garbage explains.
func IsLarge(heap, before, goal, memory uint64) bool { return isLarge(heap, before, goal, memory) }
