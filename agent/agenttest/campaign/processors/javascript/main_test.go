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

// nestedVariable has this test binary check the nested script that it names, of the size in the other variable, and run no
// tests.
const (
	nestedVariable     = "JAVASCRIPT_TEST_NESTED"
	nestedSizeVariable = "JAVASCRIPT_TEST_NESTED_SIZE"
)

var nestedSize = flag.Int("nested", 1<<20, "bytes of a nested script")

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
		size, _ := strconv.Atoi(os.Getenv(nestedSizeVariable))
		p := javascript.Plugin().New()
		_ = p.Configure(context.Background(), p.Parameters().ApplyDefaults(map[string]string{"script": strings.Repeat(nested[name], size/len(nested[name]))}))
		return
	}
	os.Exit(m.Run())
}
