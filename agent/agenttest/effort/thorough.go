// Package effort says how much a test is to try.
package effort

import (
	"os"
	"testing"
)

// Thorough reports whether tests that make something go wrong make all of it, and often: where
// CI is set, but not under the race detector, with which everything takes several times as long.
func Thorough() bool { return os.Getenv("CI") != "" && !RaceDetector }

// Brief reports whether tests are to take little time: where CI is not set. What they make go wrong they make at least once.
func Brief() bool { return os.Getenv("CI") == "" }

// Once skips a test when the race detector is on, which what the test is about is not compiled with: other programs, or a page
// whose requests other tests make as well. It would try the same again, and slowly.
func Once(t *testing.T) {
	t.Helper()
	if RaceDetector {
		t.Skip("what it tries is not compiled with the race detector, so it runs without that only")
	}
}
