package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Isolate isolates the agent and the processes that it starts. Other processes of the same user cannot read its memory
// and environment. Inherited descriptors are not passed on. Processes that lose their parent become its children (a
// subreaper), so that it can end them.
func Isolate() error {
	return errors.Join(
		control("hide the memory", unix.PR_SET_DUMPABLE, 0),
		control("adopt processes", unix.PR_SET_CHILD_SUBREAPER, 1),
		closeOnExec(),
	)
}

func control(what string, option int, value uintptr) error {
	if err := unix.Prctl(option, value, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	return nil
}

// closeOnExec marks all descriptors except the three standard ones.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot list open files: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
