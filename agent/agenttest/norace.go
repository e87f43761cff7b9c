//go:build !race

package agenttest

// RaceDetector reports whether the race detector is on.
const RaceDetector = false
