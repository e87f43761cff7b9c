package javascript

import (
	"context"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
)

// nestedVariable, when set, makes this test binary check the nested script with that name and run no tests.
// nestedSizeVariable has the size of the script in bytes.
const (
	nestedVariable     = "JAVASCRIPT_TEST_NESTED"
	nestedSizeVariable = "JAVASCRIPT_TEST_NESTED_SIZE"
)

var nestedSize = flag.Int("nested", 1<<20, "bytes of a nested script")

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

func TestMain(m *testing.M) {
	if name := os.Getenv(nestedVariable); name != "" {
		size, _ := strconv.Atoi(os.Getenv(nestedSizeVariable))
		p := javascript.Plugin().New()
		script := strings.Repeat(nested[name], size/len(nested[name]))
		_ = p.Configure(context.Background(), p.Parameters().ApplyDefaults(map[string]string{"script": script}))
		return
	}
	os.Exit(m.Run())
}
