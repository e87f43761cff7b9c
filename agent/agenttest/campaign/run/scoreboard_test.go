package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The forms of the commands in the scoreboard.
var (
	testCommand = regexp.MustCompile(
		`^(?:cd (\S+) && )?go test (\./\S+)(?: -run (\S+|'[^']+'))?(?: -v)?(?: -timeout \d+h)?((?: -[a-z.-]+=\S+)*)$`)
	campaignCommand = regexp.MustCompile(`^just campaign((?: [a-z0-9-]+)+?)(?: --((?: -[a-z.-]+=\S+)+))?$`)
	program         = regexp.MustCompile(`^go run \./cmd/conduit (\w+)(?: --[a-z]+ \d+)*$`)
	quoted          = regexp.MustCompile("`([^`]+)`")
	figure          = regexp.MustCompile(`^(2\d{3}-\d\d-\d\d|in each gate|when a change affects it)[:,] .+`)
)

// TestScoreboardCanBeRun checks that each command of RELIABILITY.md names existing tests, flags and campaigns, and that
// each result has a date or names the gate that reproduces it.
func TestScoreboardCanBeRun(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "agent", "RELIABILITY.md"))
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
		whens := map[string]bool{}
		for _, c := range commands {
			checkCommand(t, c[1], whens)
		}
		result := strings.TrimSpace(cells[3])
		if !figure.MatchString(result) {
			t.Errorf("the result of %q has no date: %q", command, result)
		}
		for _, when := range []string{always, affected} {
			if strings.Contains(strings.ToLower(result), when) && !whens[when] {
				t.Errorf("%q: nothing of it runs %s, as the result says: %q", command, when, result)
			}
		}
	}
	if rows < 10 {
		t.Errorf("the scoreboard has %d lines only", rows)
	}
}

// The possible answers to when the gate runs a command.
const (
	always   = "in each gate"
	affected = "when a change affects it"
)

// whenRun returns when the gate runs the tests of a package that these campaigns include. Tests outside of the module
// of campaigns run in each gate: in short if a campaign runs a larger size.
func whenRun(dir string, in []Campaign) string {
	switch {
	case !matches(module+"/...", dir), slices.ContainsFunc(in, func(c Campaign) bool { return c.Always }):
		return always
	case slices.ContainsFunc(in, func(c Campaign) bool { return !c.FullOnly }):
		return affected
	}
	return "never"
}

// checkCommand checks that the test, campaign or program of a command exists, and adds the time at which the gate runs
// it to whens.
func checkCommand(t *testing.T, command string, whens map[string]bool) {
	t.Helper()
	if m := testCommand.FindStringSubmatch(command); m != nil {
		dir := path.Join(m[1], m[2])
		in := checkTests(t, command, dir, strings.Trim(m[3], "'"))
		checkFlags(t, command, dir, strings.Fields(m[4]))
		whens[whenRun(dir, in)] = true
	} else if m := campaignCommand.FindStringSubmatch(command); m != nil {
		for _, name := range strings.Fields(m[1]) {
			i := slices.IndexFunc(campaigns, func(c Campaign) bool { return c.Name == name })
			if i < 0 {
				t.Errorf("%q: there is no campaign %q", command, name)
				continue
			}
			checkFlags(t, command, campaigns[i].Dir, strings.Fields(m[2]))
			whens[whenRun(campaigns[i].Dir, campaigns[i:i+1])] = true
		}
	} else if m := program.FindStringSubmatch(command); m != nil {
		page, err := os.ReadFile(filepath.Join(top, "cmd", "conduit", "docs", "COMMANDS.md"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, []byte("\n| `conduit "+m[1])) {
			t.Errorf("%q: COMMANDS.md has no command %s", command, m[1])
		}
	} else {
		t.Errorf("%q is no command of a known form", command)
	}
}

// checkTests checks that the pattern selects tests of the package, and returns the campaigns that include such a test.
func checkTests(t *testing.T, command, dir, pattern string) (in []Campaign) {
	t.Helper()
	selects, err := regexp.Compile(pattern)
	if err != nil {
		t.Errorf("%q: %v", command, err)
		return nil
	}
	found := false
	for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`).FindAllSubmatch(sources(t, dir),
		-1) {
		name := string(m[1])
		if !selects.MatchString(name) {
			continue
		}
		found = true
		for _, c := range campaigns {
			if c.has(dir, name) {
				in = append(in, c)
			}
		}
	}
	if !found {
		t.Errorf("%q selects no test of %s", command, dir)
	}
	return in
}

// checkFlags checks that the tests of the package have the flags.
func checkFlags(t *testing.T, command, dir string, flags []string) {
	t.Helper()
	for _, f := range flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "-"), "=")
		if !bytes.Contains(sources(t, dir), []byte(`("`+name+`"`)) {
			t.Errorf("%q: the tests of %s have no flag %s", command, dir, name)
		}
	}
}

// sources returns the text of the Go files of a package.
func sources(t *testing.T, dir string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(top, dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no package %s: %v", dir, err)
	}
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}
