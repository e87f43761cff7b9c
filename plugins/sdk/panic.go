package sdk

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is a panic in connector code. The connector is not called again, except
// for Teardown.
type PanicError struct {
	Value any    // argument of panic
	Stack []byte // stack of the goroutine that panicked
}

// Error returns the argument of panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Recover stores a panic in *err as a *PanicError. It must be deferred directly.
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// Contain calls f, and returns a panic in f as a *PanicError. Every goroutine of a connector that runs in the agent
// must run its function with Contain: an unrecovered panic ends the agent with all its pipelines.
func Contain(f func() error) (err error) {
	defer Recover(&err)
	return f()
}

// Panicked reports whether err is a recovered panic.
func Panicked(err error) bool { return errors.As(err, new(*PanicError)) }
