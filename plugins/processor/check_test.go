package processor_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// What a script or an expression is mistaken about is found when a file is saved, with the
// place in it. $$ stands for $, as when the pipeline runs; what refers to something that is
// not known yet is left alone.
func TestScriptsAreChecked(t *testing.T) {
	r := &processor.Registry{Builtin: processor.Builtins()}
	for _, test := range []struct{ plugin, setting, value, want string }{
		{"custom.javascript", "script", "function process(rec) {\n  rec.Metadata.a = `$${rec.Key}`;\n  return rec;\n}", ""},
		{"custom.javascript", "script", "function process(rec) {\n  rec.Metadata.a = `$${rec.Key}`;\n  return rec..x;\n}", "script:3:13: SyntaxError"},
		{"custom.javascript", "script", "function process(rec) { return /a$/.test(rec..x) }", "script:1:45: SyntaxError"},
		{"custom.javascript", "script", "function process(rec) { return ${WHAT} ..x }", ""},
		{"expr.filter", "expression", `metadata.a matches "^x$" && foo`, "expression:1:29: unknown name foo"},
		{"expr.map", "mapping", ".Metadata.a = 1 +", "mapping:1:17: unexpected token EOF"},
	} {
		problems := r.Check(t.Context(), "/processors", []spec.Processor{{ID: "p", Plugin: test.plugin, Settings: map[string]string{test.setting: test.value}}})
		switch {
		case test.want == "" && len(problems) > 0:
			t.Errorf("%s: problems are %v", test.value, problems)
		case test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Message, test.want) || problems[0].Path != "/processors/0/settings/"+test.setting):
			t.Errorf("%s: problems are %v, want %s", test.value, problems, test.want)
		}
	}
}
