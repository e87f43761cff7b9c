// Package effort says how much a test is to try.
package effort

import (
	"os"
	"testing"
)

// Thorough reports whether tests that make something go wrong make all of it, and often: where
// CI is set, but not under the race detector, with which everything takes several times as long.
func Thorough() bool { return os.Getenv("CI") != "" && !RaceDetector }

// Once skips a test of programs that are built without the race detector when that is on: it would try the same again.
func Once(t *testing.T) {
	t.Helper()
	if RaceDetector {
		t.Skip("it runs programs that are built without the race detector, so it runs without that only")
	}
}
