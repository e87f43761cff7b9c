package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/conduit-agent/conduit/spec"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitRuntime     = 1
	ExitInvalid     = 2 // arguments, settings or files that the caller must change
	ExitEnvironment = 3 // the machine: permissions, addresses, space
)

// invalidError is a mistake of the caller.
type invalidError struct{ message string }

func (e *invalidError) Error() string { return e.message }

// ErrReported is a mistake of the caller that was printed already.
var ErrReported error = &invalidError{}

// Invalidf returns a mistake of the caller.
func Invalidf(format string, args ...any) error {
	return &invalidError{fmt.Sprintf(format, args...)}
}

// IsDirectory reports whether the file that the caller names is a directory. A missing file is the caller's mistake.
func IsDirectory(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, Invalidf("no such file or directory: %s", path)
	}
	if err != nil {
		return false, fmt.Errorf("cannot read files: %w", err)
	}
	return info.IsDir(), nil
}

// environmental are the errors that the caller can only fix outside of conduit.
var environmental = []error{
	fs.ErrPermission, syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.ENOSPC, syscall.EROFS,
	syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ECONNREFUSED,
}

// ExitCode returns the exit code for the kind of error that err is. An error of the environment has a method
// Environment() bool, and an error in the caller's input is spec.ErrInvalid or has a method
// Invalid() bool.
func ExitCode(err error) int {
	var invalid *invalidError
	var environment interface{ Environment() bool }
	var settings interface{ Invalid() bool }
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &invalid):
		return ExitInvalid
	case errors.As(err, &environment) && environment.Environment():
		return ExitEnvironment
	case slices.ContainsFunc(environmental, func(e error) bool { return errors.Is(err, e) }):
		return ExitEnvironment
	case errors.As(err, &settings) && settings.Invalid(), errors.Is(err, spec.ErrInvalid):
		return ExitInvalid
	}
	return ExitRuntime
}
