package javascript

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
)

// nestedVariable, when set, makes this test binary check the nested script with that name and run no tests.
const nestedVariable = "JAVASCRIPT_TEST_NESTED"

// nested maps the name of a nested script to the text that it repeats.
var nested = map[string]string{
	"lists": "[", "parentheses": "(", "blocks": "{", "functions": "function f(){", "templates": "`${",
	"negations": "!", "signs": "- ", "arrows": "a=>", "conditions": "a?", "if": "if(1)", "new": "new ",
	"assignments": "a=", "sums": "1+", "calls": "()", "properties": ".b", "powers": "2**", "labels": "a:",
	"and": "a&&", "or": "a??", "patterns": "var [", "classes": "class A extends ", "loops": "for(;;)",
	"typeof": "typeof ", "optional": "?.b", "tagged": "``", "misread regular expression": "if(1)/\"/;[",
	"misread division": "a++/\"/;[", "misread block": "{}/\"/;[", "misread property": "a.return/\"/;[",
	"misread comment": "//\u2028[", "misread keyword": "r\\u0065turn/\"/;[", "misread space": "return\u00a0/\"/;[",
	"misread escape": "\"\\u\"[\"", "misread generator": "yield/\"/;[", "misread class": "/[/]\"/;[",
	"misread template": "`${`/\"/;[`}`[", "broken try": "try;", "broken condition": "a?b,", "broken if": "if;x;",
}

// TestMain compiles the largest nested script that is not refused for its size, because it needs the largest stack.
func TestMain(m *testing.M) {
	name := os.Getenv(nestedVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	p := javascript.Plugin().New()
	for size := 3 << 20; ; size -= size / 8 {
		script := strings.Repeat(nested[name], size/len(nested[name]))
		err := p.Configure(context.Background(), p.Parameters().ApplyDefaults(map[string]string{"script": script}))
		if err == nil || !strings.Contains(err.Error(), "too large for the stack") {
			fmt.Printf("%d bytes: %.200v\n", size, err)
			return
		}
	}
}
