//go:build !minimal

package javascript_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
)

// nestedVariable has this test binary check the nested script that it names.
const nestedVariable = "JAVASCRIPT_TEST_NESTED"

// nested are what scripts of 4 MiB repeat.
var nested = map[string]string{
	"lists": "[", "parentheses": "(", "blocks": "{", "functions": "function f(){", "templates": "`${", "negations": "!", "signs": "- ",
	"arrows": "a=>", "conditions": "a?", "if": "if(1)", "new": "new ", "assignments": "a=", "sums": "1+", "calls": "()", "properties": ".b",
	"powers": "2**", "labels": "a:", "and": "a&&", "or": "a??", "patterns": "var [", "classes": "class A extends ", "loops": "for(;;)",
	"typeof": "typeof ", "optional": "?.b", "tagged": "``", "misread regular expression": "if(1)/\"/;[", "misread division": "a++/\"/;[",
	"misread block": "{}/\"/;[", "misread property": "a.return/\"/;[", "misread comment": "//\u2028[", "misread keyword": "r\\u0065turn/\"/;[",
	"misread space": "return\u00a0/\"/;[", "misread escape": "\"\\u\"[\"", "misread generator": "yield/\"/;[", "misread class": "/[/]\"/;[",
	"misread template": "`${`/\"/;[`}`[", "broken try": "try;", "broken condition": "a?b,", "broken if": "if;x;",
}

// No script ends the process, however it is nested.
func TestNestedScripts(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector enlarges stack frames, which the bounds are made for")
	}
	if name := os.Getenv(nestedVariable); name != "" {
		_ = javascript.Compile(strings.Repeat(nested[name], 4<<20/len(nested[name])))
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range nested {
		cmd := exec.Command(exe, "-test.run=^TestNestedScripts$")
		cmd.Env = append(os.Environ(), nestedVariable+"="+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %.300s", name, err, out)
		}
	}
}

// Scripts of a usual kind are not refused, whatever their size.
func TestLargeScripts(t *testing.T) {
	function := `
// it's a comment with a quote, and an [ opening bracket
function f(record, options) {
	const path = record.Payload.After["path"].replace(/[/"'(]+/g, "/").split('/'), half = (path.length + 1) / 2 / 1
	let text = ` + "`${path.map(p => `<${p}>`).join(\"}\")} of ${half}`" + `
	if (/^["']$/.test(text)) return path.length / 2
	for (const p of path) { text += p ? p : "it\'s \u0041\x41" ; }
	return { text, half, "list": [1, 2, 3].concat(path).filter((x) => x !== null && typeof x === "string"), else: a?.b?.[0] ?? 1 } /* " */
}
const g = (a) => ({ ...a, half: a.length / 2, "x": -1 ** 2 })
`
	function = strings.Replace(function, "-1 ** 2", "(-1) ** 2", 1)
	if err := javascript.Compile(strings.Repeat("{"+function+"}\n", 2000)); err != nil {
		t.Error(err)
	}
	if err := javascript.Compile(strings.Repeat("[", 1100) + strings.Repeat("]", 1100) + strings.Repeat(";", 16<<10)); err == nil || !strings.Contains(err.Error(), "script:1:1001: SyntaxError: brackets are nested deeper than 1000") {
		t.Error(err)
	}
}
