// Package effort says how much a test is to try.
package effort

import (
	"os"
	"testing"
)

// Thorough reports whether tests that make something go wrong make all of it, and often: where
// CI is set, but not under the race detector, with which everything takes several times as long.
func Thorough() bool { return os.Getenv("CI") != "" && !RaceDetector }

// Brief reports whether tests are to take little time: where neither CI nor CONDUIT_LONG is set. What they make go wrong they make at
// least once.
func Brief() bool { return os.Getenv("CI") == "" && os.Getenv("CONDUIT_LONG") == "" }

// Long skips a test that takes long, and of whose subject shorter ones try the most, when tests are to take little time.
func Long(t *testing.T) {
	t.Helper()
	if Brief() {
		t.Skip("it takes long, so it runs where CI or CONDUIT_LONG is set only")
	}
}

// Once skips a test when the race detector is on, which what the test is about is not compiled with: other programs, or a page
// whose requests other tests make as well. It would try the same again, and slowly.
func Once(t *testing.T) {
	t.Helper()
	if RaceDetector {
		t.Skip("what it tries is not compiled with the race detector, so it runs without that only")
	}
}
