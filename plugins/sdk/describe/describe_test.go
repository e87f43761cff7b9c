package main

import (
	"bytes"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGenerate compares the constants of packages with the comments in their code.
func TestGenerate(t *testing.T) {
	for name, test := range map[string]struct{ code, want string }{
		"fields": {`
type settings struct {
	// Path of the file.
	Path string ` + "`json:\"path\" validate:\"required\"`" + `
	Size int    ` + "`json:\"size,omitempty\"`" + ` // no description
	// No setting.
	Other int
	// No setting either.
	Left int ` + "`json:\"-\"`" + `
}`, "\np.settings\npath: Path of the file.\n"},
		"texts": {`
type settings struct {
	// A list of **words**: "a|b", ` + "`c`" + `, 100 %, {{ .Key }}, ` + `\n and \\, Österreich – which
	// goes on here.
	List []string ` + "`json:\"list\"`" + `
}`, "\np.settings\nlist: A list of **words**: \"a|b\", `c`, 100 %, {{ .Key }}, \\n and \\\\, Österreich – which " +
			"goes on here.\n"},
		"forms": {`
type settings struct {
	/* Of the other
	   form. */
	A int ` + "`json:\"a\"`" + `
	//nolint:unused // a directive
	// After a directive.
	B int ` + "`json:\"b\"`" + `
}`, "\np.settings\na: Of the other form.\nb: After a directive.\n"},
		"paragraphs": {`
type settings struct {
	// Number of copies.
	//
	// It is -1 after a failure.
	Count int ` + "`json:\"count\"`" + `
}`, "\np.settings\ncount: Number of copies.\n"},
		"structs without a name": {`
type settings struct {
	Backoff struct {
		// Shortest pause.
		Min int ` + "`json:\"min\"`" + `
	} ` + "`json:\"backoff\"`" + `
	// Limits by name.
	Limits map[string]*struct {
		// Bytes.
		Bytes []struct {
			// The sum.
			Sum int ` + "`json:\"sum\"`" + `
		} ` + "`json:\"bytes\"`" + `
	} ` + "`json:\"limits.*\"`" + `
}`, "\np.settings\nbackoff.min: Shortest pause.\nlimits.*: Limits by name.\nlimits.*.bytes: Bytes.\n" +
			"limits.*.bytes.sum: The sum.\n"},
		"several": {`
type (
	settings struct {
		common
		// Number.
		N int ` + "`json:\"n\"`" + `
	}
	common struct {
		// Name.
		Name string ` + "`json:\"name\"`" + `
	}
	empty struct{}
	// It has its texts in tags.
	old struct {
		// Not used.
		A int ` + "`json:\"a\" desc:\"A number.\"`" + `
		// Not used either.
		B int ` + "`json:\"b\"`" + `
	}
)`, "\np.settings\nn: Number.\n\np.common\nname: Name.\n"},
		"none": {`type settings struct{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, map[string]string{"p/p.go": "package p\n" + test.code +
				"\nvar _ = sdk.Described(settings{}, descriptions+x.Descriptions)\n"})
			if err := generate(dir); err != nil {
				t.Fatal(err)
			}
			text := readFile(t, dir, "p/descriptions.go")
			if diff := cmp.Diff(test.want, valueOf(t, text, "descriptions")); diff != "" {
				t.Errorf("%s\n%s", diff, text)
			}
			if err := generate(dir); err != nil {
				t.Fatal(err)
			}
			if again := readFile(t, dir, "p/descriptions.go"); again != text {
				t.Errorf("the second run changed the file to\n%s", again)
			}
			for line := range strings.Lines(text) {
				if len([]rune(line)) > 120 {
					t.Errorf("the line is longer than 120 columns: %s", line)
				}
			}
		})
	}
}

// TestLongWord checks that a piece without a space is not cut.
func TestLongWord(t *testing.T) {
	var b strings.Builder
	line(&b, strings.Repeat("ö", 2*columns)+" end")
	if want := " +\n\t\"" + strings.Repeat("ö", 2*columns) + " end\\n\""; b.String() != want {
		t.Fatalf("got %s", b.String())
	}
}

// Only packages whose constant is used get one, which is exported if another package uses it.
func TestPackages(t *testing.T) {
	field := " struct {\n\t// Number.\n\tN int `json:\"n\"`\n}\n"
	files := map[string]string{
		"shared/s.go": "package shared\ntype Settings" + field,
		"own/o.go":    "package own\ntype s" + field + "var p = sdk.Described(s{}, descriptions)\n",
		"unused/u.go": "package unused\ntype s" + field + "var p = sdk.ParametersOf(s{})\n",
		"sdk/sdk.go":  "package sdk\ntype s" + field + "var p = Described(&s{}, descriptions)\n",
		"user/u.go":   "package user\nimport x \"example.com/m/shared\"\nvar _ = x.Descriptions\n",
		"user/y.go":   "package user\nvar y struct{ Descriptions int }\nvar _ = y.Descriptions\n",
		"user/ignored.go": "//go:build ignore\n\npackage main\nimport \"example.com/m/unused\"\n" +
			"var _ = unused.Descriptions\n",
		"user/u_test.go":   "package user\nimport \"example.com/m/unused\"\nvar _ = unused.Descriptions\n",
		"testdata/t.go":    "package testdata\ntype s" + field + "var p = sdk.Described(s{}, descriptions)\n",
		".hidden/t.go":     "package hidden\ntype s" + field + "var p = sdk.Described(s{}, descriptions)\n",
		"used/u.go":        "package used\nimport \"example.com/m/wanted\"\nvar _ = wanted.Descriptions\n",
		"wanted/w.go":      "package wanted\ntype s" + field + "var p = sdk.Described(s{}, descriptions)\n", // both
		"nested/go.mod":    "module example.org/other\n",
		"nested/in/in.go":  "package in\nimport \"example.org/other/lib\"\nvar _ = lib.Descriptions\n",
		"nested/lib/l.go":  "package lib\ntype T" + field,
		"docs/page.md":     "no code",
		"unused/README.md": "no code",
	}
	dir := module(t, files)
	if err := generate(dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"shared": "Descriptions", "own": "descriptions", "sdk": "descriptions",
		"wanted":     "Descriptions",
		"nested/lib": "Descriptions"}
	for name := range files {
		name = filepath.Dir(name)
		text, err := os.ReadFile(filepath.Join(dir, name, "descriptions.go"))
		if (err == nil) != (want[name] != "") {
			t.Errorf("%s: %v, want %q", name, err, want[name])
		} else if err == nil && !strings.HasSuffix(valueOf(t, string(text), want[name]), "\nn: Number.\n") {
			t.Errorf("%s: %s", name, text)
		}
	}

	write(t, dir, "own/o.go", "package own\n")
	if err := generate(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "own/descriptions.go")); !os.IsNotExist(err) {
		t.Errorf("the unused file still exists: %v", err)
	}
}

func TestErrors(t *testing.T) {
	use := "var p = sdk.Described(s{}, descriptions)\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"syntax":      {map[string]string{"p/p.go": "package p\n" + use + "type s struct {\n"}, "p/p.go:3:"},
		"bad tag":     {map[string]string{"p/p.go": "package p\n" + use + "type s struct { A int `j }\n"}, "not terminated"},
		"handwritten": {map[string]string{"p/p.go": "package p\n" + use, "p/descriptions.go": "package p\n"}, "rename it"},
		"no module":   {map[string]string{"go.mod": ""}, "no module path"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, test.files)
			err := generate(dir)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
			for name, text := range test.files {
				if got := readFile(t, dir, name); got != text {
					t.Errorf("%s changed to %s", name, got)
				}
			}
		})
	}
	if err := generate(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error for a missing directory")
	}
	if err := generate(t.TempDir()); err == nil || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("got %v without a go.mod", err)
	}
}

// TestUpToDate checks that go generate was run after comments changed.
func TestUpToDate(t *testing.T) {
	packages, err := read("../../..")
	if err != nil {
		t.Fatal(err)
	}
	needed, err := uses(packages)
	if err != nil {
		t.Fatal(err)
	}
	if len(needed) < 20 {
		t.Errorf("there are %d packages only", len(needed))
	}
	for _, p := range packages {
		var want []byte
		if constant := needed[p.path]; constant != "" {
			if want, err = p.describe(constant); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(p.old, want) {
			t.Errorf("%s is out of date: run just generate", filepath.Join(p.dir, generated))
		}
	}
}

// module writes files of a module to a new directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/m\n")
	for name, text := range files {
		write(t, dir, name, text)
	}
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// valueOf returns the value of a constant in the code of a file.
func valueOf(t *testing.T, code, name string) string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", code, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if !ast.IsGenerated(file) {
		t.Error("the file is not marked as generated")
	}
	p, err := new(types.Config).Check("p", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := p.Scope().Lookup(name).(*types.Const)
	if !ok {
		t.Fatalf("there is no constant %s in\n%s", name, code)
	}
	return constant.StringVal(c.Val())
}
