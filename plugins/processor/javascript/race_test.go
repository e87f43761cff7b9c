//go:build race

package javascript_test

// detectorFactor is the factor by which the race detector increases the memory.
const detectorFactor = 2
