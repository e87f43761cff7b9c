package sdk

import (
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
