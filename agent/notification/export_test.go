package notification

import "errors"

// Refused reports whether err is one that no other attempt can mend.
func Refused(err error) bool {
	over := (*refused)(nil)
	return errors.As(err, &over)
}
