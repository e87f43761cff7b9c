package dryrun_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/dryrun"
)

// Each problem of a test file has its place, and words of the file rather than of the program.
func TestProblemsOfTestFiles(t *testing.T) {
	const test = "tests:\n  - name: x\n    expect: [{count: 1}]\n"
	for text, want := range map[string]string{
		"":           "1:1: there are no tests: want a list under tests",
		"tests: []":  "1:1: there are no tests: want a list under tests",
		"tests: 1":   `1:8: tests of a test file must be a list, not "1"`,
		"[]":         "1:1: the file must be a map, not a list",
		"test: []":   `1:1: a test file has no field "test"; did you mean "tests"? (fields: variables, tests)`,
		"tests: [":   "2:1: the YAML is not valid here",
		"tests: [1]": `1:9: item 1 of tests of a test file must be a map, not "1"`,
		test + "---\n" + test: "5:1: the file has several documents: write all tests into one list under tests, and " +
			"remove ---",
		test + "tests: []":          `4:1: "tests" is written twice, at lines 1 and 4: remove one of them`,
		test + "variables: {A: []}": `4:16: "A" in variables of a test file must be text, not a list`,
		test + "    start: noon":    `4:12: start of a test must be a time such as 2024-01-01T00:00:10Z, not "noon"`,
		test + "    advance: 1":     `4:14: advance of a test must be a duration such as 10s or 1h30m, not "1"`,
		test + "    advance: -1s":   `4:14: test "x": advance must not be negative`,
		test + "    aftr: 1": `4:5: a test has no field "aftr" (fields: name, pipeline, start, input, advance, ` +
			`expect)`,
		test + "    input: [{record: {payload: {aftr: 1}}, wait: -1s}, {recrd: 1}]": `4:33: the payload of a record has ` +
			`no field "aftr"; did you mean "after"? (fields: before, after)|4:57: an input has no field "recrd"; did ` +
			`you mean "record"? (fields: source, wait, record)`,
		test + "    input: [{record: {payload: {after: [1]}}, wait: -1s}]": `4:22: test "x": key, before and after ` +
			`are text or an object, not [1]|4:53: test "x": wait must not be negative`,
		test + "    input: [{record: {operation: make}}]": `4:22: test "x": cannot parse operation "make"`,
		"tests: [{name: x, expect: [{count: one}]}]": `1:36: count of an expectation must be a whole number ` +
			`without quotes, not "one"`,
		"tests: [{name: x, expect: [{dead-letters: 2}]}]": `1:43: dead-letters of an expectation must be true or false ` +
			`without quotes, not "2"`,
		"tests: [{expect: [{}]}, {name: y}]": `1:9: a test has no name: add a name that says what it checks|1:19: an ` +
			`expectation says nothing: want equal, contains, each, count or error|1:25: test "y": the test expects nothing: ` +
			`want a list under expect`,
		"tests: [{name: x, expect: [{each: '{{ .x }}'}]}]": `1:35: test "x": each: cannot parse the template: at line 1`,
		"a: &a {aftr: 1}\ntests: [{<<: *a, name: x, expect: [{count: 1}]}]": `1:1: a test file has no field "a"|1:8: a ` +
			`test has no field "aftr"`,
	} {
		f, problems := dryrun.Parse("a.test.yaml", []byte(text))
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Message))
		}
		wants := strings.Split(want, "|")
		if f != nil || len(got) != len(wants) {
			t.Errorf("%s:\ngot %q\nwant %q", text, got, wants)
			continue
		}
		for i := range wants {
			if !strings.HasPrefix(got[i], wants[i]) || strings.Contains(got[i], "dryrun.") {
				t.Errorf("%s:\ngot  %s\nwant %s", text, got[i], wants[i])
			}
		}
	}
}

func TestParse(t *testing.T) {
	f, problems := dryrun.Parse("a.test.yaml", []byte(`
tests:
  - &first
    name: first
    start: 2024-01-01T00:00:10Z
    advance: 1m
    input: [{wait: 1s, source: in, record: {key: null, metadata: {n: 1}, payload: {after: {a: [1.50, {b: null}]}}}}]
    expect: [{count: 0, equal: []}]
  - <<: *first
    name: 2
`))
	if len(problems) > 0 || len(f.Tests) != 2 || f.Tests[1].Name != "2" || f.Tests[1].Line != 9 ||
		f.Tests[1].Advance != f.Tests[0].Advance || f.Tests[0].Input[0].Record.Metadata["n"] != "1" {
		t.Fatalf("got %+v, %v", f, problems)
	}
}
