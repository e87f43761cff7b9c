//go:build race

package effort

// RaceDetector reports whether the race detector is on.
const RaceDetector = true
