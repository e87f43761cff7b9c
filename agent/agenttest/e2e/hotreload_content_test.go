package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

// Each document of a file is independent, and pipelines of an incomplete file keep running unchanged.
func TestFilesWithSeveralPipelines(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		save func(d *desk, both func(a, b int) string)
		a, b int // versions that run at the end
	}{
		"one document is wrong": {func(d *desk, both func(a, b int) string) {
			d.Save("both.yaml", strings.Replace(both(2, 7), "rate: 7", "rate: [7", 1))
			d.WaitProblem("both.yaml", "YAML")
		}, 2, 1},
		"one pipeline has a wrong field": {func(d *desk, both func(a, b int) string) {
			d.Save("both.yaml", strings.Replace(both(2, 7), "  - id: b\n", "  - id: b\n    stats: running\n", 1))
			d.WaitProblem("both.yaml", "stats")
		}, 2, 1},
		"an id cannot be read": {func(d *desk, both func(a, b int) string) {
			d.Save("both.yaml", strings.Replace(both(2, 7), "id: b\n", "id: [\n", 1))
			d.WaitProblem("both.yaml", "YAML")
		}, 2, 1},
		"an id is missing": {func(d *desk, both func(a, b int) string) {
			d.Save("both.yaml", strings.Replace(both(2, 7), "  - id: b\n", "  - name: b\n", 1))
			d.WaitProblem("both.yaml", "id")
		}, 2, 1},
		"half of it is written, a valid file, and later the rest": {func(d *desk, both func(a, b int) string) {
			half, _, _ := strings.Cut(both(2, 1), "---")
			d.Write("both.yaml", half)
			d.WaitWithdrawn("b")
			d.Write("both.yaml", both(2, 1))
		}, 2, 1},
		"the order changes": {func(d *desk, both func(a, b int) string) {
			d.Save("both.yaml", d.Generated("b", 1)+"---\n"+d.Generated("a", 2))
		}, 2, 1},
		"one moves to a file of its own": {func(d *desk, both func(a, b int) string) {
			d.Save("b.yaml", d.Generated("b", 1))
			d.Save("both.yaml", d.Generated("a", 2))
		}, 2, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deskIn(t, "")
			both := func(a, b int) string { return d.Generated("a", a) + "---\n" + d.Generated("b", b) }
			d.Save("both.yaml", both(1, 1))
			d.Runs("a", 1)
			d.Runs("b", 1)
			c.save(d, both)
			d.Runs("a", c.a)
			d.Runs("b", c.b)
			d.WantStarts("a", c.a)
			d.WantStarts("b", c.b)
		})
	}
}

// An invalid file is refused with its problems, and stops nothing.
func TestWrongFilesStopNothing(t *testing.T) {
	t.Parallel()
	var laughs strings.Builder
	laughs.WriteString("version: \"2.2\"\nx0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range 9 {
		fmt.Fprintf(&laughs, "x%d: &x%d [%s]\n", i+1, i+1,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i), 10), ", "))
	}
	replace := func(old, new string) func(d *desk) string {
		return func(d *desk) string { return strings.Replace(d.Generated("p", 2), old, new, 1) }
	}
	cases := map[string]struct {
		content func(d *desk) string
		want    string
	}{
		"syntax":                {replace("connectors:", "connectors: ["), "YAML"},
		"tabs":                  {replace("    connectors:", "\tconnectors:"), "YAML"},
		"a key twice":           {replace("    connectors:", "    name: a\n    name: b\n    connectors:"), "name"},
		"an unknown field":      {replace("connectors:", "conectors:"), "connectors"},
		"aliases that explode":  {func(*desk) string { return laughs.String() }, "expand"},
		"empty":                 {func(*desk) string { return "" }, "empty"},
		"only comments":         {func(*desk) string { return "# nothing yet\n" }, "empty"},
		"not text":              {func(*desk) string { return "\xff\xfe\xfd" }, "UTF"},
		"an unclosed reference": {replace("rate: 2", "rate: '${RATE'"), "not closed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := atDesk(t)
			d.Save("p.yaml", c.content(d))
			d.WaitProblem("p.yaml", c.want)
			d.WantStarts("p", 1)
			d.WantStarts("q", 1)
			d = d.again(func() {})
			d.Runs("p", 1)
			d.Save("p.yaml", d.Generated("p", 3))
			d.Runs("p", 3)
			if text := d.Problems("p.yaml"); text != "" {
				t.Errorf("problems: %s", text)
			}
		})
	}
}

// A file that was never valid affects no other file, not even at the first start.
func TestAWrongFileAtTheFirstStart(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	for name, content := range map[string]string{"a.yaml": "pipelines: [",
		"p.yaml": agenttest.Generated(dir, "p", 1, ""),
		"z.yaml": ""} {
		if err := os.WriteFile(dir+"/pipelines/"+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := deskIn(t, dir)
	d.Runs("p", 1)
	d.WaitProblem("a.yaml", "YAML")
	d.WaitProblem("z.yaml", "empty")
}

// Settings are strings: values that YAML would read as numbers, dates or booleans stay as written.
func TestSettingsStayAsWritten(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	d.Save("p.yaml", strings.Replace(d.Generated("p", 1), "rate: 1,",
		`rate: 1, a: no, b: 012, c: 1_000, d: 2024-01-01, e: 1e3, f: 0x1F, g: "1.0", h: 1.10, i: ON, j: .5, k: `+
			`12:30:45,`, 1))
	d.Wait("the declaration", func() bool { return d.Declared("p").Generation == 1 })
	got := maps.Clone(d.Declared("p").Pipeline.Connectors[0].Settings)
	maps.DeleteFunc(got, func(k, _ string) bool { return len(k) > 1 })
	want := map[string]string{"a": "no", "b": "012", "c": "1_000", "d": "2024-01-01", "e": "1e3", "f": "0x1F",
		"g": "1.0", "h": "1.10", "i": "ON", "j": ".5", "k": "12:30:45"}
	if !maps.Equal(got, want) {
		t.Errorf("settings %v\nwant %v", got, want)
	}
}

// Values of references are taken literally, whatever they contain.
func TestReferencesAreNotExpandedTwice(t *testing.T) {
	t.Setenv("AGENT_TEST_NAME", "pa$$word$HOME${HOME}")
	d := deskIn(t, "")
	d.Save("p.yaml",
		strings.Replace(d.Generated("p", 1), "/p.jsonl", "/${AGENT_TEST_NAME}$$x-${AGENT_TEST_UNSET:-default}", 1))
	d.Runs("p", 1)
	d.Wait("the file", func() bool {
		_, err := os.Stat(d.Path("pa$$word$HOME${HOME}$x-default"))
		return err == nil
	})
}
