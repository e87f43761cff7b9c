package config

// invalidError is an error that the settings are to blame for, unless its cause comes from the machine.
type invalidError struct{ error }

// Invalid returns err as one that the settings are to blame for: commands end with the code for
// invalid input, unless its cause says with Environment that it comes from the machine. nil stays nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return &invalidError{err}
}

// Invalid reports that what the user wrote is wrong.
func (*invalidError) Invalid() bool { return true }

// Unwrap returns the cause.
func (e *invalidError) Unwrap() error { return e.error }
