//go:build race

package javascript_test

const raceDetector = true
