package plugins

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

// contain calls fn and returns a panic in it as a *PanicError.
func contain(fn func() error) (err error) {
	defer recovered(&err)
	return fn()
}

// recovered, when deferred, turns a panic into *err.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}
