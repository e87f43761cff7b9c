package spec_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/yamldoc"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestBadFiles(t *testing.T) {
	for _, path := range glob(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := parse(t, path)
			if len(f.Problems) == 0 {
				t.Error("no problem was found")
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".want", []byte(report(f)))
		})
	}
}

func TestGoodFiles(t *testing.T) {
	for _, path := range glob(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := parse(t, path)
			if len(f.Problems) > 0 || f.Broken {
				t.Fatalf("problems in a good file:\n%s", report(f))
			}
			got, err := json.MarshalIndent(pipelines(f), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".json", append(got, '\n'))
		})
	}
}

// Text from editors on other systems has the same meaning.
func TestLineEndingsAndByteOrderMark(t *testing.T) {
	text := read(t, "testdata/good/complete.yaml")
	want := spec.ParseFile("f.yaml", text)
	for name, same := range map[string][]byte{
		"CRLF": bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")),
		"BOM":  append([]byte("\ufeff"), text...),
	} {
		if diff := cmp.Diff(pipelines(want), pipelines(spec.ParseFile("f.yaml", same))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestUnreadableText(t *testing.T) {
	deep := "pipelines:\n- id: p\n  connectors: " + strings.Repeat("[", 100) + strings.Repeat("]", 100)
	big := "x-a: &a " + strings.Repeat("v", 60_000) + "\nx-b: [" + strings.TrimSuffix(strings.Repeat("*a,", 100), ",") +
		"]\npipelines: []\n"
	laughs := "x-0: &l0 [a, a, a, a, a, a, a, a]\n"
	for i := range 20 {
		laughs += fmt.Sprintf("x-%d: &l%d [%s*l%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*l%d, ", i), 7), i)
	}
	tests := map[string]struct{ text, want string }{
		"UTF-16":      {"\xff\xfep\x00", "UTF-16"},
		"NUL":         {"pipelines: []\n# \x00", "f.yaml:2:3: : the file contains a NUL"},
		"not UTF-8":   {"pipelines: [\xe9]", "f.yaml:1:13: : byte 0xe9 is not valid UTF-8"},
		"too large":   {strings.Repeat("# x\n", 300_000), "larger than 1048576 bytes"},
		"empty":       {"", "pipelines: []"},
		"comments":    {"# nothing\n---\n# here\n", "pipelines: []"},
		"null":        {"~\n", "pipelines: []"},
		"too deep":    {deep, "nested more than 64"},
		"big aliases": {big, "expand to more than"},
		"laughs":      {laughs + "pipelines: []", "cannot read the document"},
		"cycle":       {"x-a: &a [*a]\npipelines: []", "contains itself"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := spec.ParseFile("f.yaml", []byte(tt.text))
			if !f.Broken || !strings.Contains(report(f), tt.want) {
				t.Errorf("want broken and %q, got\n%s", tt.want, report(f))
			}
		})
	}
}

func TestWithdrawingFile(t *testing.T) {
	f := spec.ParseFile("f.yaml", []byte("version: 2.2\npipelines: []\n"))
	if f.Broken || len(f.Problems)+len(f.Pipelines)+len(f.Invalid) > 0 {
		t.Errorf("an empty list is not taken for one: %+v", f)
	}
}

func TestMarks(t *testing.T) {
	f := spec.ParseFile("f.yaml", []byte("pipelines:\n- id: p\n  status: stopped\n  connectors:\n  - {id: c, type: "+
		"source, plugin: x, settings: {a/b: 1}}\n"))
	if len(f.Pipelines) != 1 {
		t.Fatal(report(f))
	}
	p := f.Pipelines[0]
	if got, want := p.Places.Closest("/connectors/0/settings/a~1b"), (yamldoc.Mark{Line: 5, Column: 54}); got != want ||
		p.Line != 2 {
		t.Errorf("got %v and line %d, want %v and line 2", got, p.Line, want)
	}
}

func TestManyProblemsAreBounded(t *testing.T) {
	f := spec.ParseFile("f.yaml", []byte("pipelines:\n"+strings.Repeat("- {}\n", 1000)))
	if n := len(f.Problems); n != 101 {
		t.Errorf("got %d problems, want 100 and one that counts the rest", n)
	}
}

// report renders the result of parsing a file.
func report(f spec.File) string {
	var b strings.Builder
	for _, p := range f.Problems {
		fmt.Fprintf(&b, "%s:%d:%d: %s: %s\n    %s %s", p.File, p.Line, p.Column, p.Path, p.Message, p.Severity, p.Code)
		if p.Pipeline != "" {
			fmt.Fprintf(&b, " pipeline=%s", p.Pipeline)
		}
		b.WriteString("\n")
	}
	var valid []string
	for _, p := range f.Pipelines {
		valid = append(valid, p.Pipeline.ID)
	}
	fmt.Fprintf(&b, "valid=%v invalid=%v broken=%v\n", valid, f.Invalid, f.Broken)
	return b.String()
}

func pipelines(f spec.File) []spec.Pipeline {
	all := []spec.Pipeline{}
	for _, p := range f.Pipelines {
		all = append(all, p.Pipeline)
	}
	return all
}

func parse(t *testing.T, path string) spec.File {
	t.Helper()
	return spec.Parser{References: unread()}.File(filepath.Base(path), read(t, path))
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return paths
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, path)), string(got)); diff != "" {
		t.Errorf("%s: -want +got:\n%s", path, diff)
	}
}

// References in ids, names and statuses are replaced after the YAML is read, so that no value can change the structure
// of the document. References in settings stay.
func TestReferencesOutsideOfSettings(t *testing.T) {
	env := map[string]string{"ENV": "prod", "STATUS": "stopped", "EVIL": "x\n  - id: other", "TYPE": "source"}
	variables := kinds(func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil, nil)
	variables[0].Early = true
	parser := spec.Parser{References: variables}
	text := `version: "2.2"
pipelines:
  - id: orders-${ENV}
    status: $STATUS
    name: ${EVIL}
    description: "$$5 for ${NOBODY:-all}"
    connectors:
      - {id: in, type: "${TYPE}", plugin: "${PLUGIN}", settings: {a: "${SECRET}"}}
      - {id: "out-${ENV}", type: destination, plugin: log}
    processors:
      - {id: p, plugin: x, condition: "{{ $a := 1 }}true"}
`
	f := parser.File("f.yaml", []byte(text))
	if len(f.Pipelines) != 1 || len(f.Problems) > 0 {
		t.Fatal(report(f))
	}
	p := f.Pipelines[0].Pipeline
	if p.ID != "orders-prod" || p.Status != spec.StatusStopped || p.Name != env["EVIL"] ||
		p.Description != "$5 for all" ||
		p.Connectors[0].Type != spec.TypeSource || p.Connectors[0].Plugin != "${PLUGIN}" ||
		p.Connectors[0].Settings["a"] != "${SECRET}" ||
		p.Connectors[1].ID != "out-prod" || p.Processors[0].Condition != "{{ $a := 1 }}true" {
		t.Errorf("got %+v", p)
	}
	if again := spec.ParseFile("f.yaml", spec.Marshal(p)); len(again.Pipelines) != 1 ||
		cmp.Diff(p, again.Pipelines[0].Pipeline) != "" {
		t.Errorf("it is written as\n%s%s", spec.Marshal(p), report(again))
	}
	delete(env, "STATUS")
	if f := parser.File("f.yaml", []byte(text)); len(f.Pipelines) != 0 || !strings.Contains(report(f),
		"f.yaml:4:13: /pipelines/0/status: status: environment variable STATUS is not set") {
		t.Error(report(f))
	}
	if f := spec.ParseFile("f.yaml", []byte(text)); len(f.Pipelines) != 0 || !f.Broken {
		t.Errorf("without variables: %s", report(f))
	}
}
