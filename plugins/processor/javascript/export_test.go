//go:build !minimal

package javascript

import (
	"time"
)

// SetMatchGrace sets how much longer than a script regular expressions that are made until restore is called may match.
func SetMatchGrace(d time.Duration) (restore func()) {
	before := matchGrace
	matchGrace = d
	return func() { matchGrace = before }
}

// Compile compiles a script.
func Compile(text string) error {
	_, err := compile("script", text, maxTimeout)
	return err
}
