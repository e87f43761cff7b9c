package javascript_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
)

// Ordinary scripts of some 100 KiB are accepted, but not those that could need too much stack.
func TestLargeScripts(t *testing.T) {
	t.Parallel()
	function := `
// it's a comment with a quote, and an [ opening bracket
function f(record, options) {
	const path = record.Payload.After["path"].replace(/[/"'(]+/g, "/").split('/'), half = (path.length + 1) / 2 / 1
	let text = ` + "`${path.map(p => `<${p}>`).join(\"}\")} of ${half}`" + `
	if (/^["']$/.test(text)) return path.length / 2
	for (const p of path) { text += p ? p : "it\'s \u0041\x41" ; }
	return { text, half, "list": [1, 2, 3].concat(path).filter((x) => x !== null && typeof x === "string"),
		else: a?.b?.[0] ?? 1 } /* " */
}
const g = (a) => ({ ...a, half: a.length / 2, "x": -1 ** 2 })
`
	function = strings.Replace(function, "-1 ** 2", "(-1) ** 2", 1)
	if err := javascript.Compile(strings.Repeat("{"+function+"}\n", 500)); err != nil {
		t.Error(err)
	}
	for script, want := range map[string]string{
		strings.Repeat("[", 200<<10):      "the script is too large for the stack",
		strings.Repeat("a:", 8<<10):       `more than 4000 labels or names of members "a"`,
		strings.Repeat("a/**/:", 5<<10):   `more than 4000 labels or names of members ""`,
		strings.Repeat("\\u0061:", 5<<10): `more than 4000 labels or names of members ""`,
		strings.Repeat("a\ufeff:", 5<<10): `more than 4000 labels or names of members "a"`,
	} {
		if err := javascript.Compile(script); err == nil || !strings.Contains(err.Error(), "script: SyntaxError: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %s", script, err, want)
		}
	}
}
