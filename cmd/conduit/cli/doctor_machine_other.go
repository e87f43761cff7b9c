//go:build !linux

package cli

import "errors"

// machine has nothing to check on this system.
func (e *examination) machine() {}

func clockSynchronized() (synchronized, known bool) { return false, false }

func freeSpace(string) (bytes, inodes int64, err error) {
	return 0, 0, errors.New("the disk is checked on Linux only")
}
