package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Objects are equal whatever the order of their fields, but not with another value, order or number of lines, and all
// have the added field.
func TestSumOfObjects(t *testing.T) {
	const in = `{"id":1,"a":"x"}` + "\n" + `{"id":2,"a":"y"}` + "\n"
	sum := func(text string) digest {
		d, err := sumObjects(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := withField(sum(in))
	for text, same := range map[string]bool{
		`{"env":"prod", "a":"x", "id":1.0}` + "\n" + `{"id":2e0,"a":"y","env":"prod"}`: true,
		`{"id":1,"a":"x","env":"prod"}` + "\n" + `{"id":2,"a":"y"}`:                    false,
		`{"id":2,"a":"y","env":"prod"}` + "\n" + `{"id":1,"a":"x","env":"prod"}`:       false,
		`{"id":1,"a":"x","env":"prod"}` + "\n" + `{"id":2,"a":"z","env":"prod"}`:       false,
		`{"id":1,"a":"x","env":"test"}` + "\n" + `{"id":2,"a":"y","env":"test"}`:       false,
		`{"id":1,"a":"x","env":"prod"}`:                                                false,
		in:                                                                             false,
	} {
		if got := sum(text); (got == want) != same {
			t.Errorf("%s: %v, in %v", text, got, want)
		}
	}
	if _, err := sumObjects(strings.NewReader("{torn")); err == nil {
		t.Error("a torn line is an object")
	}
}

// Losses are a higher rate, and less of anything else, by the medians, and by more than the A/A control differs.
func TestLosses(t *testing.T) {
	columns := make([]column, 4)
	columns[0].name, columns[1].name = "records/s", "CPU"
	cases := []testCase{{name: "lines: " + ours}, {name: "lines: fast"}, {name: "lines: small"}, {name: "lines: like us"},
		{name: "lines: gone"}, {name: "lines: " + ours + controlled}}
	runs := [][][]float64{{{10, 10, 1, 1}}, {{9, 9, 2, 2}, {9, 9, .5, 2}, {9, 9, 1.5, 2}}, {{9, 9, .5, .25}},
		{{9, 9, 1.1, .8}}, nil, {{8, 13, 1, 1}}}
	got := strings.Join(losses(columns, cases, runs), "; ")
	if want := "lines, records/s: fast has 1.50 of the agent's; lines, CPU: small has 0.25 of the agent's"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A program that is not installed has a line in the table that names the command.
func TestMissingRivalIsInTheTable(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	r := &rival{name: "no-such-rival", debian: "no-such-package"}
	once := 0
	s := suite{columns: make([]column, 3), cases: []testCase{
		{name: "there", measure: func(context.Context, *bench) ([]float64, error) { return []float64{1, 2, 3}, nil }},
		{name: "absent", measure: func(context.Context, *bench) ([]float64, error) {
			once++
			_, _, err := r.find()
			return nil, err
		}},
	}}
	for i := range s.columns {
		s.columns[i] = column{name: "x", format: "%.0f"}
	}
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = writer
	err = (&bench{dir: filepath.Join(t.TempDir(), "run")}).run(t.Context(), s, 2)
	os.Stdout = stdout
	if err := errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	table, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if want := "| absent | missing: `apt-get install no-such-package`, or `just bench -rivals` | | |\n" +
		"| there" + controlled + " | 1 | 2 | 3 |\n"; !strings.HasSuffix(string(table), want) || once != 1 {
		t.Errorf("tried %d times, got %s", once, table)
	}
}

// A process whose output cannot be measured is an error.
func TestUntilNothingToMeasure(t *testing.T) {
	for script, want := range map[string]string{
		"true": "it ended without output",
		"printf '1\\n2\\n3\\n' >output0.jsonl; exec sleep 60": "all records arrived at once: use more with -records",
	} {
		b := &bench{dir: t.TempDir(), records: 3}
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = b.dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, err := b.until(t.Context(), cmd.Process.Pid, b.toFile())
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}

// Only the programs of the chosen cases are installed: some take an hour to build.
func TestNeeded(t *testing.T) {
	all := suites("")
	for only, want := range map[string][]*rival{
		"containers: all at once: vlagent":          {&vlagent},
		"containers: 10,000/s: vlagent":             {&vlagent},
		"throughput:":                               nil,
		"rivals: plain lines, file → file: rsyslog": {&rsyslog},
	} {
		selected := choose(all, only, true)
		if got := needed(selected); len(selected) == 0 || !slices.Equal(got, want) {
			t.Errorf("%d suites with %q need %v, want %v", len(selected), only, got, want)
		}
	}
	if got := needed(choose(all, "containers:", true)); len(got) != len(collectors)-1 {
		t.Errorf("the cases of containers need %d programs, want each once", len(got))
	}
}
