package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
)

// The exit codes.
const (
	exitOK          = 0
	exitRuntime     = 1
	exitInvalid     = 2 // arguments, settings or files that the caller must change
	exitEnvironment = 3 // the machine: permissions, addresses, space
)

// invalidError is a mistake of the caller. Without a message everything was said already.
type invalidError struct{ message string }

func (e *invalidError) Error() string { return e.message }

func invalidf(format string, args ...any) error {
	return &invalidError{fmt.Sprintf(format, args...)}
}

// environmental are the errors that the caller can only mend outside of conduit.
var environmental = []error{
	fs.ErrPermission, syscall.EADDRINUSE, syscall.EADDRNOTAVAIL, syscall.ENOSPC, syscall.EROFS,
	syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ECONNREFUSED,
}

// exitCode returns the exit code for the kind of error that err is. An error may
// say that it comes from the environment with a method Environment() bool, and that it comes
// from what the caller wrote with a method Invalid() bool.
func exitCode(err error) int {
	var invalid *invalidError
	var environment interface{ Environment() bool }
	var settings interface{ Invalid() bool }
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &invalid):
		return exitInvalid
	case errors.As(err, &environment) && environment.Environment():
		return exitEnvironment
	case slices.ContainsFunc(environmental, func(e error) bool { return errors.Is(err, e) }):
		return exitEnvironment
	case errors.As(err, &settings) && settings.Invalid():
		return exitInvalid
	}
	return exitRuntime
}
