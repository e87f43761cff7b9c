// Package failure marks the errors of a run that trying again will not mend.
package failure

import "errors"

// permanentError is an error that trying again will not mend.
type permanentError struct{ error }

// Permanent marks err as one that trying again will not mend.
func Permanent(err error) error { return permanentError{err} }

// Permanent reports that the pipeline is not to be started again by itself.
func (permanentError) Permanent() bool { return true }

// Unwrap returns the cause.
func (e permanentError) Unwrap() error { return e.error }

// Refused makes err permanent, unless it says that the connector was lost: that refuses
// nothing, and another attempt may succeed.
func Refused(err error) error {
	var lost interface{ Lost() bool }
	if errors.As(err, &lost) && lost.Lost() {
		return err
	}
	return Permanent(err)
}
