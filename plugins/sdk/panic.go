package sdk

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is a panic in connector code. The connector is not called again, except
// for Teardown.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

// Error returns what panic was called with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Recover turns a panic into *err, a *PanicError. It must itself be deferred.
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// Contain calls f, and returns a panic of it as a *PanicError. Every goroutine of a connector that runs in the agent
// must run its function with Contain: a panic that is not recovered ends the agent with all of its pipelines.
func Contain(f func() error) (err error) {
	defer Recover(&err)
	return f()
}

// Panicked reports whether err is a panic that was recovered from.
func Panicked(err error) bool { return errors.As(err, new(*PanicError)) }
