//go:build !minimal

package javascript

import (
	"time"

	"github.com/dlclark/regexp2/v2"
)

// SetMatchTimeout sets how long regular expressions that are made until restore is called may
// match.
func SetMatchTimeout(d time.Duration) (restore func()) {
	before := regexp2.DefaultMatchTimeout
	regexp2.DefaultMatchTimeout = d
	return func() { regexp2.DefaultMatchTimeout = before }
}

// Compile compiles a script.
func Compile(text string) error {
	_, err := compile("script", text)
	return err
}
