package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestExitCode(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{Invalidf("x"), 2},
		{fmt.Errorf("cannot listen: %w", &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}), 3},
		{fmt.Errorf("cannot write: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}), 3},
		{fmt.Errorf("cannot open: %w", lockedError{}), 3},
	}
	for _, tt := range tests {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

// lockedError is an error of the host on which the agent runs.
type lockedError struct{}

func (lockedError) Error() string     { return "in use by process 7" }
func (lockedError) Environment() bool { return true }
