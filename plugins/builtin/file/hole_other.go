//go:build !linux

package file

// Seek fails with these values. Holes are then recognized by their content.
const (
	seekData = -1
	seekHole = -1
)
