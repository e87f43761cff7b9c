package engine

// permanentError is an error that trying again will not mend.
type permanentError struct{ error }

func permanent(err error) error { return permanentError{err} }

// Permanent reports that the pipeline is not to be started again by itself.
func (permanentError) Permanent() bool { return true }

// Unwrap returns the cause.
func (e permanentError) Unwrap() error { return e.error }
