package main

import (
	"flag"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The packages of a small repository: an agent of an engine and connectors, and two campaigns with a helper.
var small = []Package{
	{Dir: "agent", Imports: []string{"agent/engine", "plugins/builtin/kafka", "plugins/builtin/mysql"}},
	{Dir: "agent/engine", Imports: []string{"plugins/sdk"}},
	{Dir: "api/web"},
	{Dir: "plugins/builtin/kafka", Imports: []string{"plugins/sdk"}},
	{Dir: "plugins/builtin/mysql", Imports: []string{"plugins/sdk", "plugins/builtin/mysql/binlog"}},
	{Dir: "plugins/builtin/mysql/binlog"},
	{Dir: "plugins/sdk"},
	{Dir: module + "/kill", Tests: []string{module + "/server", "agent"}},
	{Dir: module + "/pages"},
	{Dir: module + "/server"},
}

func TestAffects(t *testing.T) {
	kafka := Campaign{Name: "kafka", Dir: module + "/kill",
		Subjects: []string{"plugins/builtin/kafka/...", "agent/engine"}}
	mysql := Campaign{Name: "mysql", Dir: module + "/kill", Subjects: []string{"plugins/builtin/mysql", "agent/engine"}}
	ui := Campaign{Name: "ui", Dir: module + "/pages", Subjects: []string{"api/web"}}
	pages := Campaign{Name: "pages", Dir: module + "/pages", Subjects: []string{"**/*.md"}}
	packages := Campaign{Name: "packages", Dir: module + "/pages", Subjects: []string{".ci/...", "go.mod", "**/*.c"}}
	all := []Campaign{kafka, mysql, ui, pages, packages}
	for _, test := range []struct {
		files []string
		want  map[string]string // reasons by campaign
	}{
		{nil, map[string]string{}},
		{[]string{"plugins/builtin/kafka/source.go"},
			map[string]string{"kafka": "plugins/builtin/kafka/source.go changed"}},
		{[]string{"plugins/builtin/mysql/binlog/event.go"}, map[string]string{
			"mysql": "plugins/builtin/mysql/binlog/event.go changed, on which plugins/builtin/mysql depends"}},
		{[]string{"agent/engine/run.go"},
			map[string]string{"kafka": "agent/engine/run.go changed", "mysql": "agent/engine/run.go changed"}},
		{[]string{"plugins/sdk/sdk.go"}, map[string]string{
			"kafka": "plugins/sdk/sdk.go changed, on which plugins/builtin/kafka depends",
			"mysql": "plugins/sdk/sdk.go changed, on which plugins/builtin/mysql depends"}},
		{[]string{"api/web/assets/app.js"},
			map[string]string{"ui": "api/web/assets/app.js changed, on which api/web depends"}},
		{[]string{"agent/run.go"}, map[string]string{}},
		{[]string{"agent/engine/run_test.go", "plugins/sdk/testdata/a.json"}, map[string]string{}},
		{[]string{"plugins/builtin/kafka/README.md"},
			map[string]string{"pages": "plugins/builtin/kafka/README.md changed",
				"kafka": "plugins/builtin/kafka/README.md changed"}},
		{[]string{"README.md"}, map[string]string{"pages": "README.md changed"}},
		{[]string{".ci/release"}, map[string]string{"packages": ".ci/release changed"}},
		{[]string{"plugins/builtin/x/x.c"}, map[string]string{"packages": "plugins/builtin/x/x.c changed"}},
		{[]string{module + "/server/kafka.go"}, map[string]string{
			"kafka": module + "/server/kafka.go changed, which is part of the campaign",
			"mysql": module + "/server/kafka.go changed, which is part of the campaign"}},
		{[]string{module + "/pages/testdata/deep/file"}, map[string]string{
			"ui":       module + "/pages/testdata/deep/file changed, which is part of the campaign",
			"pages":    module + "/pages/testdata/deep/file changed, which is part of the campaign",
			"packages": module + "/pages/testdata/deep/file changed, which is part of the campaign"}},
		{[]string{"go.sum"}, map[string]string{"kafka": "go.sum changed, on which plugins/builtin/kafka depends",
			"mysql": "go.sum changed, on which plugins/builtin/mysql depends",
			"ui":    "go.sum changed, on which api/web depends"}},
	} {
		change, got := NewChange(test.files, small), map[string]string{}
		for _, c := range all {
			if reason := change.Affects(c); reason != "" {
				got[c.Name] = reason
			}
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%v changed: got %q, want %q", test.files, got, test.want)
		}
	}
}

// top is the root of the repository.
const top = "../../../.."

// Each campaign is complete, has tests, and names existing subjects.
func TestCampaigns(t *testing.T) {
	packages, err := list(top)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"all": true}
	tests := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	change := NewChange(nil, packages)
	for _, c := range campaigns {
		if names[c.Name] || c.About == "" || (len(c.Subjects) == 0 && !c.Always && !c.FullOnly) {
			t.Errorf("%+v has a name that another has, says not what it shows, or has no subject", c)
		}
		names[c.Name] = true
		for _, subject := range c.Subjects {
			if _, err := path.Match(subject, ""); err != nil {
				t.Errorf("%s: subject %q: %v", c.Name, subject, err)
			}
			if len(change.matching(subject)) == 0 && !exists(t, subject) {
				t.Errorf("%s: there is no package or file %q", c.Name, subject)
			}
		}
		files, err := filepath.Glob(filepath.Join(top, c.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		run, found := regexp.MustCompile(strings.Split(c.Run, "/")[0]), false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range tests.FindAllStringSubmatch(string(text), -1) {
				found = found || run.MatchString(name[1])
			}
		}
		if !found {
			t.Errorf("%s: %s has no test %q", c.Name, c.Dir, c.Run)
		}
	}
}

// exists reports whether a subject matches a file.
func exists(t *testing.T, subject string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(top, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name, err = filepath.Rel(top, name); err != nil {
			return err
		}
		if found = found || matches(subject, filepath.ToSlash(name)); found {
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var update = flag.Bool("update", false, "write the tables of the page about tests")

// The page about tests lists the current campaigns.
func TestPage(t *testing.T) {
	packages, err := list(top)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(top, "agent", "agenttest", "README.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), beginTables)
	_, after, ended := strings.Cut(rest, endTables)
	if !begun || !ended {
		t.Fatalf("%s has no place for the tables", page)
	}
	want := before + beginTables + tables(campaigns, packages) + endTables + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s has other tables: run go test ./run -update in %s", page, module)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every test of the module of campaigns belongs to a campaign, so that a full run leaves none out.
func TestEveryTestIsInACampaign(t *testing.T) {
	tests := regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
	files, err := filepath.Glob(filepath.Join("..", "*", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join("..", "*", "*", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(files, deeper) {
		dir := path.Join(module, filepath.ToSlash(strings.TrimPrefix(filepath.Dir(file), "..")))
		if slices.Contains([]string{module + "/run", module + "/load", module + "/bench"}, dir) {
			continue // they need nothing, and the gate runs them after each change
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tests.FindAllStringSubmatch(string(text), -1) {
			if !slices.ContainsFunc(campaigns, func(c Campaign) bool { return c.has(dir, name[1]) }) {
				t.Errorf("%s of %s is in no campaign", name[1], dir)
			}
		}
	}
}

// has reports whether a test of the package is in the campaign.
func (c Campaign) has(dir, test string) bool {
	skipped := c.Skip != "" && regexp.MustCompile(c.Skip).MatchString(test)
	return c.Dir == dir && !skipped && regexp.MustCompile(strings.Split(c.Run, "/")[0]).MatchString(test)
}

// TestFailures checks that the log of a failed test is shown, wherever it stands, and logs of other tests are not.
func TestFailures(t *testing.T) {
	log := strings.Split(`=== RUN   TestA
=== RUN   TestB
    b_test.go:1: B is well
=== NAME  TestA
    a_test.go:2: A is not well
=== RUN   TestA/part
    a_test.go:3: neither is a part of it
=== NAME  TestB
    b_test.go:4: B is still well
--- PASS: TestB (0.00s)
--- FAIL: TestA (0.00s)
    --- FAIL: TestA/part (0.00s)`, "\n")
	want := []string{log[3], log[4], log[6], log[10], log[11]}
	if got := failures(log); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := failures([]string{"it does not start"}); !slices.Equal(got, []string{"it does not start"}) {
		t.Errorf("a log without tests: %q", got)
	}
}

// Without a commit to compare with, all campaigns run except builds of a release, which take as long as all others.
func TestWithoutBase(t *testing.T) {
	var left []string
	for _, c := range campaigns {
		if withoutBase(c) == "" {
			left = append(left, c.Name)
		}
	}
	if want := []string{"packages", "cross", "reproducible"}; !slices.Equal(left, want) {
		t.Errorf("%q do not run, want %q", left, want)
	}
}
