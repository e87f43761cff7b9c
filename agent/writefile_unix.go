//go:build unix

package agent

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives the draft the owner of the file, who could not read or write it otherwise.
func keepOwner(draft *os.File, info fs.FileInfo) error {
	is, ok := info.Sys().(*syscall.Stat_t)
	made, err := draft.Stat()
	if err != nil || !ok {
		return err
	}
	if has, ok := made.Sys().(*syscall.Stat_t); ok && has.Uid == is.Uid && has.Gid == is.Gid {
		return nil
	}
	if draft.Chown(int(is.Uid), int(is.Gid)) != nil {
		return errors.New("it belongs to another user or group than the agent, and writing it would change its owner")
	}
	return nil
}
