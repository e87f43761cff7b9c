package notification

import "errors"

// Refused reports whether err is an error that a retry cannot fix.
func Refused(err error) bool {
	over := (*refused)(nil)
	return errors.As(err, &over)
}
