package config

// invalidError is an error in the settings, unless its cause comes from the machine.
type invalidError struct{ error }

// Invalid marks err as an error in the settings: commands end with the exit code for invalid input, unless the cause
// says with Environment that it comes from the machine. nil stays nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return &invalidError{err}
}

// Invalid reports that the input of the user is wrong.
func (*invalidError) Invalid() bool { return true }

// Unwrap returns the cause.
func (e *invalidError) Unwrap() error { return e.error }
