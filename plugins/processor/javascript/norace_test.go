//go:build !race

package javascript_test

// detectorFactor is 1 without the race detector.
const detectorFactor = 1
