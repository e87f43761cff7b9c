package pages

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The forms that the commands of the scoreboard have.
var (
	testCommand = regexp.MustCompile(`^(?:cd (\S+) && )?go test (\./\S+)(?: -run (\S+|'[^']+'))?(?: -v)?(?: -timeout \d+h)?((?: -[a-z]+=\S+)*)$`)
	justCommand = regexp.MustCompile(`^just (\w+)(?: [a-z-]+)*$`)
	program     = regexp.MustCompile(`^go run \./cmd/conduit (\w+)(?: --[a-z]+ \d+)*$`)
	quoted      = regexp.MustCompile("`([^`]+)`")
	figure      = regexp.MustCompile(`^(2\d{3}-\d\d-\d\d|in each run of CI)[:,] .+`)
)

// TestScoreboardCanBeRun checks that each command of RELIABILITY.md names tests, flags and recipes that exist, and
// that each result has a date.
func TestScoreboardCanBeRun(t *testing.T) {
	page, err := os.ReadFile(root + "/agent/RELIABILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := 0
	for row := range strings.SplitSeq(strings.TrimSpace(table), "\n") {
		rows++
		cells := strings.Split(strings.ReplaceAll(row, `\|`, "\x00"), "|")
		if len(cells) != 5 {
			t.Errorf("%q has %d cells", row, len(cells)-2)
			continue
		}
		command := strings.ReplaceAll(strings.TrimSpace(cells[2]), "\x00", "|")
		commands := quoted.FindAllStringSubmatch(command, -1)
		if len(commands) == 0 {
			t.Errorf("%q has no command", row)
		}
		for _, c := range commands {
			checkCommand(t, c[1])
		}
		if result := strings.TrimSpace(cells[3]); !figure.MatchString(result) {
			t.Errorf("the result of %q has no date: %q", command, result)
		}
	}
	if rows < 10 {
		t.Errorf("the scoreboard has %d lines only", rows)
	}
}

// checkCommand checks that there is what a command names.
func checkCommand(t *testing.T, command string) {
	t.Helper()
	if m := testCommand.FindStringSubmatch(command); m != nil {
		checkTests(t, command, filepath.Join(m[1], m[2]), strings.Trim(m[3], "'"), strings.Fields(m[4]))
	} else if m := justCommand.FindStringSubmatch(command); m != nil {
		checkFile(t, root+"/justfile", `(?m)^`+m[1]+`\b[^=\n]*:`)
	} else if m := program.FindStringSubmatch(command); m != nil {
		checkFile(t, root+"/README.md", "(?m)^\\| `conduit "+m[1]+"\\b")
	} else {
		t.Errorf("%q is no command of a known form", command)
	}
}

// checkTests checks that the package has tests that the pattern selects, and the flags.
func checkTests(t *testing.T, command, pkg, pattern string, flags []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%q: there is no package %s", command, pkg)
		return
	}
	selects, err := regexp.Compile(pattern)
	if err != nil {
		t.Errorf("%q: %v", command, err)
		return
	}
	found, all := 0, []byte{}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source...)
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && selects.MatchString(f.Name.Name) {
				found++
			}
		}
	}
	if found == 0 {
		t.Errorf("%q selects no test", command)
	}
	for _, f := range flags {
		if name, _, _ := strings.Cut(strings.TrimPrefix(f, "-"), "="); !bytes.Contains(all, []byte(`("`+name+`"`)) {
			t.Errorf("%q: the tests of the package have no flag %s", command, name)
		}
	}
}

// checkFile checks that a file has what matches the pattern.
func checkFile(t *testing.T, path, pattern string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(pattern).Match(file) {
		t.Errorf("nothing in %s matches %s", path, pattern)
	}
}
