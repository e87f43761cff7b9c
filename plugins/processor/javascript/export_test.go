package javascript

import (
	"time"
)

// SetMatchGrace sets the matching time that new regular expressions get beyond the time limit of the script, until
// restore is called.
func SetMatchGrace(d time.Duration) (restore func()) {
	before := matchGrace
	matchGrace = d
	return func() { matchGrace = before }
}

// SetGuardTick sets the interval between checks of a call until restore is called.
func SetGuardTick(d time.Duration) (restore func()) {
	before := guardTick
	guardTick = d
	return func() { guardTick = before }
}

// SetMaxNativeDepth sets the bound for nested calls of built-in functions until restore is called.
func SetMaxNativeDepth(n int) (restore func()) {
	before := maxNativeDepth
	maxNativeDepth = n
	return func() { maxNativeDepth = before }
}

// Compile compiles a script.
func Compile(text string) error {
	_, err := compile("script", text, maxTimeout)
	return err
}
