// Package effort says how much a test is to try.
package effort

import "os"

// Thorough reports whether tests that make something go wrong make all of it, and often: where
// CI is set, but not under the race detector, with which everything takes several times as long.
func Thorough() bool { return os.Getenv("CI") != "" && !RaceDetector }
