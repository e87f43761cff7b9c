//go:build !linux

package file

// Seek fails for them: holes are recognized by reading.
const (
	seekData = -1
	seekHole = -1
)
