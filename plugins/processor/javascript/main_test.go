//go:build !minimal

package javascript_test

import (
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
)

// nestedVariable has this test binary check the nested script that it names, and run no tests.
const nestedVariable = "JAVASCRIPT_TEST_NESTED"

// nestedSize is how large nested scripts are where CI is set, elsewhere a quarter.
const nestedSize = 4 << 20

// nested are what such scripts repeat.
var nested = map[string]string{
	"lists": "[", "parentheses": "(", "blocks": "{", "functions": "function f(){", "templates": "`${", "negations": "!", "signs": "- ",
	"arrows": "a=>", "conditions": "a?", "if": "if(1)", "new": "new ", "assignments": "a=", "sums": "1+", "calls": "()", "properties": ".b",
	"powers": "2**", "labels": "a:", "and": "a&&", "or": "a??", "patterns": "var [", "classes": "class A extends ", "loops": "for(;;)",
	"typeof": "typeof ", "optional": "?.b", "tagged": "``", "misread regular expression": "if(1)/\"/;[", "misread division": "a++/\"/;[",
	"misread block": "{}/\"/;[", "misread property": "a.return/\"/;[", "misread comment": "//\u2028[", "misread keyword": "r\\u0065turn/\"/;[",
	"misread space": "return\u00a0/\"/;[", "misread escape": "\"\\u\"[\"", "misread generator": "yield/\"/;[", "misread class": "/[/]\"/;[",
	"misread template": "`${`/\"/;[`}`[", "broken try": "try;", "broken condition": "a?b,", "broken if": "if;x;",
}

func TestMain(m *testing.M) {
	if name := os.Getenv(nestedVariable); name != "" {
		size := nestedSize
		if os.Getenv("CI") == "" {
			size /= 4
		}
		_ = javascript.Compile(strings.Repeat(nested[name], size/len(nested[name])))
		return
	}
	if name := os.Getenv(hostileVariable); name != "" {
		if !runHostile(name) {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
