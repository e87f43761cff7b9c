package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/spec"
)

// A problem has an excerpt of the file around its place, without secrets.
func TestProblemsShowTheirLines(t *testing.T) {
	file := spec.ParseFile("p.yaml", []byte("version: \"2.2\"\npipelines:\n  - id: p\n    connectors:\n      - id: "+
		"in\n        type: sauce\n        plugin: generator\n        settings:\n          password: hunter2\n"))
	if len(file.Problems) != 2 {
		t.Fatalf("problems are %+v", file.Problems)
	}
	want := "    connectors:\n      - id: in\n        type: sauce\n        plugin: generator\n        settings:"
	if diff := cmp.Diff(want, file.Problems[0].Excerpt); diff != "" {
		t.Error(diff)
	}

	if got := file.Problems[1].Excerpt; !strings.Contains(got, "password: ***") {
		t.Errorf("that of a secret in the file is %q", got)
	}

	file = spec.ParseFile("p.yaml", []byte("version: \"2.2\"\npipelines:\n  - id: p\n    connectors:\n      - id: "+
		"in\n        type: source\n        plugin: x\n        settings:\n          password: hunter2\n        "+
		"nonsense: "+strings.Repeat("é", 300)+"\n"))
	if len(file.Problems) != 2 || strings.Count(file.Problems[1].Excerpt, "\n") < 3 {
		t.Fatalf("problems are %+v", file.Problems)
	}
	for line := range strings.SplitSeq(file.Problems[1].Excerpt, "\n") {
		if strings.Contains(line, "hunter2") || len([]rune(line)) > 161 {
			t.Errorf("a line is %q", line)
		}
	}
}
