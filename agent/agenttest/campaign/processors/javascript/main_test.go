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

// nested maps the name of a nested script to its parts: the second is inside of as many of the first as of the third.
var nested = map[string][3]string{
	"lists": {"[", "1", "]"}, "parentheses": {"(", "1", ")"}, "blocks": {"{", "1", "}"}, "open lists": {"["},
	"open parentheses": {"("}, "open blocks": {"{"}, "objects": {"({a:", "1", "})"},
	"functions":       {"function f(){", "", "}"},
	"function values": {"(()=>{", "", "})"}, "templates": {"`${", "1", "}`"}, "open templates": {"`${"},
	"negations": {"!", "1"}, "signs": {"- ", "1"}, "complements": {"~", "1"}, "arrows": {"a=>", "1"},
	"conditions": {"a?", "1", ":a"}, "if": {"if(1)", ";"}, "else": {"if(1);else ", ";"}, "new": {"new ", "A"},
	"assignments": {"a=", "1"}, "sums": {"1+", "1"}, "calls": {"a", "", "()"}, "properties": {"a", "", ".b"},
	"elements": {"a", "", "[1]"}, "powers": {"2**", "2"}, "labels": {"a:", ";"}, "and": {"a&&", "a"},
	"or":       {"a??", "a"},
	"patterns": {"[", "a", "]"}, "spread": {"[...", "a", "]"}, "classes": {"(class extends ", "A", "{})"},
	"loops": {"for(;;)", ";"}, "do": {"do ", ";", "while(1)"}, "typeof": {"typeof ", "a"}, "optional": {"a", "", "?.b"},
	"tagged": {"a", "", "``"}, "regular expressions": {"(?=", "", ")"}, "broken try": {"try;"},
	"broken condition": {"a?b,"},
	"broken if":        {"if;x;"},
}

// TestMain compiles the largest nested script that is not refused for its size, because it needs the largest stack.
func TestMain(m *testing.M) {
	name := os.Getenv(nestedVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	p := javascript.Plugin().New()
	for size := 3 << 20; ; size -= size / 8 {
		parts := nested[name]
		n := size / (len(parts[0]) + len(parts[2]))
		if parts[0] == "a" { // a chain, not a nest
			n, parts[0], parts[1] = size/len(parts[2]), "", "a"
		}
		script := strings.Repeat(parts[0], n) + parts[1] + strings.Repeat(parts[2], n)
		if name == "regular expressions" {
			script = "/" + strings.Repeat(parts[0], n) + strings.Repeat(parts[2], n) + "/"
		}
		err := p.Configure(context.Background(), p.Parameters().ApplyDefaults(map[string]string{"script": script}))
		if err == nil || !strings.Contains(err.Error(), "too large for the stack") {
			fmt.Printf("%d bytes: %.200v\n", size, err)
			return
		}
	}
}
