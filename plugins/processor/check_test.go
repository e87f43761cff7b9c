package processor_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// Mistakes in scripts and expressions are found when a file is saved, with their place. $$ stands for $, as in a
// running pipeline. A setting that refers to a value that is not known yet is not checked.
func TestScriptsAreChecked(t *testing.T) {
	r := &processor.Registry{Builtin: processors.All()}
	for _, test := range []struct{ plugin, setting, value, want string }{
		{"custom.javascript", "script", "function process(rec) {\n  rec.Metadata.a = `$${rec.Key}`;\n  return rec;\n}",
			""},
		{"custom.javascript", "script", "function process(rec) {\n  rec.Metadata.a = `$${rec.Key}`;\n  return " +
			"rec..x;\n}", "script:3:13: SyntaxError"},
		{"custom.javascript", "script", "function process(rec) { return /a$/.test(rec..x) }",
			"script:1:45: SyntaxError"},
		{"custom.javascript", "script", "function process(rec) { return ${WHAT} ..x }", ""},
		{"expr.filter", "expression", `metadata.a matches "^x$" && foo`, "expression:1:29: unknown name foo"},
		{"expr.map", "mapping", ".Metadata.a = 1 +", "mapping:1:17: unexpected token EOF"},
	} {
		problems := r.Check(t.Context(), "/processors",
			[]spec.Processor{{ID: "p", Plugin: test.plugin, Settings: map[string]string{test.setting: test.value}}})
		switch {
		case test.want == "" && len(problems) > 0:
			t.Errorf("%s: problems are %v", test.value, problems)
		case test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Message, test.want) ||
			problems[0].Path != "/processors/0/settings/"+test.setting):
			t.Errorf("%s: problems are %v, want %s", test.value, problems, test.want)
		}
	}
}

// TestTimesFit checks the warnings about timeouts and retries that take longer than a processor may take for a record.
func TestTimesFit(t *testing.T) {
	const longer = "longer than 2m0s (processors.timeout)"
	web := map[string]string{"request.url": "http://a"}
	page := map[string]string{"url": "http://a"}
	text := map[string]string{"api_key": "k", "model": "gpt-4o", "developer_message": "d"}
	embed := map[string]string{"apiKey": "k"}
	for name, test := range map[string]struct {
		plugin string
		given  map[string]string
		more   string // settings, separated by blanks
		at     string // "": no warning
		lower  string
	}{
		"web default": {"webhook.http", web, "", "", ""},
		"web one try": {"webhook.http", web, "request.timeout=2m", "", ""},
		"web long try": {"webhook.http", web, "request.timeout=121s", "request.timeout",
			"lower request.timeout, or"},
		"web tries": {"webhook.http", web, "request.timeout=30s backoffRetry.count=3", "request.timeout",
			"lower request.timeout or backoffRetry.count, or"},
		"web few tries": {"webhook.http", web, "request.timeout=20s backoffRetry.count=3", "", ""},
		"web not set":   {"webhook.http", web, "backoffRetry.count=3", "", ""},
		"web pauses": {"webhook.http", web, "backoffRetry.count=60", "backoffRetry.count",
			"lower backoffRetry.count, or"},
		"web many tries": {"webhook.http", web, "backoffRetry.count=2000000000 backoffRetry.min=0s", "", ""},
		"web references": {"webhook.http", web, "request.timeout=30s backoffRetry.count=${N}", "", ""},
		"page default":   {"enrich.http", page, "", "", ""},
		"page tries":     {"enrich.http", page, "timeout=40s", "timeout", "lower timeout or retries, or"},
		"page pauses":    {"enrich.http", page, "retries=100 backoff.max=1m", "retries", "lower retries, or"},
		"model default":  {"openai.textgen", text, "", "", ""},
		"model tries":    {"openai.textgen", text, "timeout=1m", "timeout", "lower timeout or max_retries, or"},
		"model pauses":   {"openai.textgen", text, "max_retries=20", "max_retries", "lower max_retries, or"},
		"model few tries": {"openai.embeddings", map[string]string{"api_key": "k", "model": "m"}, "timeout=20s", "",
			""},
		"embedding tries": {"cohere.embed", embed, "timeout=3m", "timeout", "lower timeout, or"},
		"ollama": {"ollama", map[string]string{"url": "http://a", "model": "m", "prompt": "p"}, "timeout=5m",
			"timeout", "lower timeout, or"},
		"another": {"custom.javascript", map[string]string{"script": "function process(r) { return r }"},
			"timeout=10s", "", ""},
	} {
		settings := maps.Clone(test.given)
		for one := range strings.FieldsSeq(test.more) {
			key, value, _ := strings.Cut(one, "=")
			settings[key] = value
		}
		for limit, warns := range map[time.Duration]bool{2 * time.Minute: test.at != "", 0: false} {
			r := &processor.Registry{Builtin: processors.All(), TimeLimit: limit}
			problems := r.Check(t.Context(), "/processors",
				[]spec.Processor{{ID: "p", Plugin: test.plugin, Settings: settings}})
			switch {
			case !warns && len(problems) > 0:
				t.Errorf("%s: problems are %v", name, problems)
			case warns && (len(problems) != 1 || problems[0].Severity != spec.SeverityWarning ||
				problems[0].Path != "/processors/0/settings/"+test.at ||
				!strings.Contains(problems[0].Message, longer) || !strings.Contains(problems[0].Message, test.lower)):
				t.Errorf("%s: problems are %v, want a warning at %s: %s", name, problems, test.at, test.lower)
			}
		}
	}
}

// TestTimesFit covers every processor with a timeout and retries.
func TestTimesOfAllFit(t *testing.T) {
	checked := []string{"webhook.http", "enrich.http", "ollama", "openai.textgen", "openai.embeddings",
		"cohere.command", "cohere.embed", "cohere.rerank"}
	for _, p := range processors.All() {
		for name := range processor.Parameters(p) {
			if strings.HasSuffix(name, "timeout") && p.Name != "custom.javascript" &&
				!slices.Contains(checked, p.Name) {
				t.Errorf("%s has %s: list its settings in fits.go", p.Name, name)
			}
		}
	}
}
