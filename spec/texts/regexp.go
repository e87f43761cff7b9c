package texts

import (
	"regexp"
	"sync"
)

// Regexp returns a function that returns the regular expression of text. The expression is compiled on the first call,
// which panics if text is invalid. Compiled at package level, the expressions of all connectors and processors take a
// fifth of the start of the agent.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
