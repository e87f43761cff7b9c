package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Generated is a pipeline that generates numbered records into a file in the agent's directory.
func Generated(dir, id string, rate int, more string) string {
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: %[2]s
    %[4]s
    connectors:
      - id: src
        type: source
        plugin: builtin:generator
        settings: {rate: %[3]d, format.type: structured, format.options.n: int}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: "%[1]s/%[2]s.jsonl"}
`, dir, id, rate, more)
}

// Numbers returns the positions of the generated records in a file, in order.
func Numbers(t testing.TB, path string) []int {
	t.Helper()
	out, torn := NumbersOf(t, path)
	if len(torn) > 0 {
		t.Fatalf("cannot parse %q", torn)
	}
	return out
}

// LinesIn returns the number of complete lines in a file, 0 if it does not exist. It costs less than Numbers.
func LinesIn(t testing.TB, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

// NumbersOf returns the numbers of the records in a file, and the invalid lines: a killed destination may leave an
// incomplete line.
func NumbersOf(t testing.TB, path string) (out []int, torn []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var r struct{ Position []byte }
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // still being written
		}
		if json.Unmarshal(line, &r) != nil {
			torn = append(torn, string(line))
			continue
		}
		n, err := strconv.Atoi(string(r.Position))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out, torn
}

// WantConsecutive checks that the numbers run from 1 without a gap and without repeats.
func WantConsecutive(t *testing.T, got []int) {
	t.Helper()
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("record %d is number %d", i+1, n)
		}
	}
}

// WantAll checks that the records in these files are complete, each once, and in order in every file.
func WantAll(t *testing.T, got ...[]int) {
	t.Helper()
	var all []int
	for i, one := range got {
		if !slices.IsSorted(one) {
			t.Fatalf("the records of file %d are not in order", i+1)
		}
		all = append(all, one...)
	}
	slices.Sort(all)
	WantConsecutive(t, all)
}

// Nothing is a pipeline file without pipelines.
const Nothing = "version: \"2.2\"\npipelines: []\n"
