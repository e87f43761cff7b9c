//go:build race

package agenttest

const raceDetector = true
