//go:build race

package javascript_test

// detectorFactor is how much more memory the race detector takes.
const detectorFactor = 2
