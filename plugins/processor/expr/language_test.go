package expr

import (
	"regexp"
	"strings"
	"testing"

	"github.com/expr-lang/expr/builtin"
)

// TestLanguage compares the documented functions with the functions of expressions, and compiles the texts between back
// quotes.
func TestLanguage(t *testing.T) {
	described := map[string]bool{"text": true}
	var functions string
	for line := range strings.SplitSeq(strings.ReplaceAll(language, "\n  ", " "), "\n") {
		if strings.HasPrefix(line, "- functions") || strings.HasPrefix(line, "- formats") {
			functions += line
		}
	}
	for _, m := range regexp.MustCompile("`([a-zA-Z0-9]+)\\(").FindAllStringSubmatch(functions, -1) {
		described[m[1]] = true
	}
	for _, name := range builtin.Names {
		if !described[name] {
			t.Errorf("%s is not described", name)
		}
	}
	sample := strings.NewReplacer("list", "after.list", "(s", "(after.s",
		", old, new", `, "a", "b"`, ", by", `, ","`, ", part", `, "a"`, ", p)", `, "a")`,
		", n)", ", 2)", "(n", "(2", "(a, b)", "(1, 2)", "(a", "(1", "(o", "(after",
		", name", `, "a"`, "(v", "(after", ", layout, zone", `, "2006-01-02", "UTC"`,
		"(d)", `(duration("1h"))`)
	for _, m := range regexp.MustCompile("`([a-zA-Z0-9]+\\([^`]*\\))`").FindAllStringSubmatch(functions, -1) {
		expression := sample.Replace(m[1])
		expression = strings.Replace(expression, "concat(1, 2)", "concat([1], [2])", 1)
		e := newEnvironment(t.Context())
		if _, err := e.compile(source{setting: "expression", text: expression}, expression); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}
