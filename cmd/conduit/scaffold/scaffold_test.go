package scaffold

import (
	"os"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestDemoIsTheOneInTheCheckout(t *testing.T) {
	file, err := os.ReadFile("../../../pipelines/demo-pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := Demo("demo-pipeline").Render(); string(got) != string(file) {
		t.Errorf("conduit pipelines init writes\n%s", got)
	}
}

func TestQuoteIsReadBackTheSame(t *testing.T) {
	for _, s := range []string{
		"", "word", "a.b-c_1", "1", "1.5", "true", "No", "null", "-", "a b", "a: b", "# a", "it's", `say "x"`,
		`back\slash`, `{{ index .Metadata "opencdc.collection" }}`, "two\nlines", "tab\t", "<&>", "Zürich", "\x1b[2J", "*", "~",
	} {
		t.Run(s, func(t *testing.T) {
			var back map[string]any
			if err := yaml.Unmarshal([]byte("k: "+quote(s)+"\n"), &back); err != nil || back["k"] != s {
				t.Errorf("%q is written %s and read %q, %v", s, quote(s), back["k"], err)
			}
		})
	}
}
