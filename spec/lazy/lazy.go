// Package lazy defers to first use what would otherwise be done whenever a program starts.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that returns the regular expression of text, which it compiles when it is first called. It
// panics then if text is none. Compiled at package level, those of all connectors and processors take a fifth of the start of the agent.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
