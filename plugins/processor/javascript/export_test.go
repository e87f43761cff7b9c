//go:build !minimal

package javascript

import (
	"time"
)

// SetMatchGrace sets how much longer than a script regular expressions that are made until restore is called may match.
func SetMatchGrace(d time.Duration) (restore func()) {
	before := matchGrace
	matchGrace = d
	return func() { matchGrace = before }
}

// SetGuardTick sets how often calls are checked until restore is called.
func SetGuardTick(d time.Duration) (restore func()) {
	before := guardTick
	guardTick = d
	return func() { guardTick = before }
}

// SetMaxNativeDepth sets how deep calls of functions of the language may be nested until restore is called.
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
