package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// amended is pipeline p, which generates records at the given rate, in a version of which
// everything but the source may differ.
type amended struct {
	source, destination string // plugins; built in when empty
	settings            string // of the destination
	more                string // keys of the pipeline
}

func (v amended) text(rate int) string {
	source, destination := "builtin:generator", "builtin:file"
	settings := fmt.Sprintf("rate: %d, format.type: structured, format.options.n: int", rate)
	if v.source != "" {
		source, settings = v.source, ""
	}
	if v.destination != "" {
		destination = v.destination
	}
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - id: src
        type: source
        plugin: %s
        settings: {%s}
      - id: dst
        type: destination
        plugin: %s
        settings: {%s}
%s`, source, settings, destination, v.settings, v.more)
}

// become saves a version and waits until it runs.
func (d *desk) become(v amended, rate int) {
	d.t.Helper()
	before := d.declared("p").Generation
	d.Save("p.yaml", v.text(rate))
	d.Wait("the new version to run", func() bool {
		decl, s := d.declared("p"), d.State("p")
		return decl.Generation > before && s.Phase == spec.PhaseRunning && s.RunningGeneration == decl.Generation
	})
}

// grown waits until a file is longer than it is now.
func (d *desk) grown(name string) {
	d.t.Helper()
	size := func() int64 {
		if info, err := os.Stat(d.Path(name)); err == nil {
			return info.Size()
		}
		return 0
	}
	before := size()
	d.Wait(name+" to grow", func() bool { return size() > before })
}

// wantAll checks that the records in these files are all there are, each once, and in
// order in every file.
func wantAll(t *testing.T, got ...[]int) {
	t.Helper()
	var all []int
	for i, one := range got {
		if !slices.IsSorted(one) {
			t.Fatalf("the records of file %d are not in order", i+1)
		}
		all = append(all, one...)
	}
	slices.Sort(all)
	wantConsecutive(t, all)
}

// Two hundred times, and sixty outside CI, the destination of a busy pipeline writes somewhere else: the source
// stays open, and nothing is lost, repeated or out of order.
func TestDestinationChangesUnderLoad(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	names := []string{"one.jsonl", "two.jsonl"}
	version := func(i int) amended {
		return amended{settings: fmt.Sprintf("path: %q, sdk.record.format: opencdc/json", d.Path(names[i%2]))}
	}
	d.become(version(0), 20000)
	changes := 60
	switch {
	case effort.Thorough():
		changes = 200
	case effort.Brief():
		changes = 20
	}
	for i := 1; i <= changes; i++ {
		d.become(version(i), 20000)
		if i%20 == 0 {
			d.grown(names[i%2])
		}
	}
	for plugin, want := range map[string]float64{"builtin:generator": 1, "builtin:file": float64(1 + changes)} {
		if n := scrape(t, d.Agent, fmt.Sprintf("conduit_plugin_starts_total{plugin=%q}", plugin)); n != want {
			t.Errorf("%s was started %v times, want %v", plugin, n, want)
		}
	}
	d.started("p", 1)
	d.Stop()
	one, two := numbers(t, d.Path("one.jsonl")), numbers(t, d.Path("two.jsonl"))
	wantAll(t, one, two)
	t.Logf("%d records", len(one)+len(two))
}

// The processes of what does not change stay the same ones, and receive no call.
func TestDestinationChangesBetweenExecutables(t *testing.T) {
	effort.Long(t)
	dir := agenttest.NewDir(t)
	install(t, dir, "journal", "xfile")
	d := deskIn(t, dir)
	processes := func() (pids []int) {
		d.Wait("two processes", func() bool { pids = children(os.Getpid()); return len(pids) == 2 })
		return pids
	}
	names := []string{"one.jsonl", "two.jsonl"}
	version := func(i int) amended {
		return amended{source: "journal", destination: "xfile", settings: fmt.Sprintf("path: %q", d.Path(names[i%2]))}
	}
	d.become(version(0), 0)
	d.grown(names[0])
	before := processes()
	changes := 10
	if effort.Brief() {
		changes = 4
	}
	var source int
	for i := 1; i <= changes; i++ {
		d.become(version(i), 0)
		d.grown(names[i%2])
		now := processes()
		kept := slices.DeleteFunc(slices.Clone(now), func(pid int) bool { return !slices.Contains(before, pid) })
		if len(kept) != 1 || source != 0 && kept[0] != source {
			t.Fatalf("processes %v became %v", before, now)
		}
		before, source = now, kept[0]
	}
	l := &life{T: t, path: d.Path("journal")}
	l.want("Configure v=, OnCreated v=, Open")
	d.Stop()
	l.want("Teardown")
	wantAll(t, numbers(t, d.Path("one.jsonl")), numbers(t, d.Path("two.jsonl")))
}

// A destination that is stuck in the middle of a write holds up the change, and nothing
// else; what waits for it goes to the new one.
func TestASlowDestinationIsReplaced(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	d.must(mkfifo(d.Path("pipe")))
	pipe, err := os.OpenFile(d.Path("pipe"), os.O_RDWR, 0) // it has no reader yet
	d.must(err)
	var piped bytes.Buffer
	read := make(chan error, 1)
	drain := sync.OnceFunc(func() {
		go func() {
			_, err := io.Copy(&piped, pipe)
			read <- err
		}()
	})
	t.Cleanup(drain) // lest the agent cannot end
	d.Save("p.yaml", amended{settings: fmt.Sprintf("path: %q", d.Path("pipe"))}.text(20000))
	d.WaitPhase("p", spec.PhaseRunning, 1)
	got := func(stage string) int {
		return int(scrape(t, d.Agent, fmt.Sprintf(`conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="p",stage=%q}`, stage)))
	}
	d.Wait("records to queue up", func() bool { return got("read")-got("settled") > 500 })
	d.Save("p.yaml", amended{settings: fmt.Sprintf("path: %q", d.Path("p.jsonl"))}.text(20000))
	d.Save("q.yaml", d.made("q", 1))
	d.runs("q", 1)
	if s := d.State("p"); s.RunningGeneration != 1 || s.Phase != spec.PhaseRunning {
		t.Errorf("while the old destination writes: %+v", s)
	}
	before := got("read")
	drain()
	d.WaitPhase("p", spec.PhaseRunning, 2)
	d.grown("p.jsonl")
	d.started("p", 1)
	d.Stop()
	d.must(pipe.SetReadDeadline(time.Now().Add(50 * time.Millisecond)))
	if err := <-read; !os.IsTimeout(err) {
		t.Fatal(err)
	}
	d.must(os.WriteFile(d.Path("piped"), piped.Bytes(), 0o600))
	old, replacement := numbers(t, d.Path("piped")), numbers(t, d.Path("p.jsonl"))
	if wantAll(t, old, replacement); replacement[0] > before {
		t.Errorf("the first %d of %d records that waited went to the old destination", replacement[0]-1, before)
	}
}

// A destination that never answers is cut off; all it was given goes to the new one.
func TestAStuckDestinationIsReplaced(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := agenttest.NewDir(t)
	install(t, dir, "journal", "chaos")
	d := deskIn(t, dir, func(c *config.Config) { c.Pipelines.DrainTimeout = 200 * time.Millisecond })
	d.become(amended{source: "journal", destination: "chaos", settings: "mode: never ack"}, 0)
	d.Wait("records that are not answered", func() bool {
		return scrape(t, d.Agent, `conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="p",stage="read"}`) > 20
	})
	d.become(amended{source: "journal", settings: fmt.Sprintf("path: %q", d.Path("p.jsonl"))}, 0)
	d.grown("p.jsonl")
	d.started("p", 2)
	d.Stop()
	wantConsecutive(t, numbers(t, d.Path("p.jsonl")))
}

// A destination that refuses its settings is never touched, and one that cannot open is
// taken back: nothing is lost or repeated. The message says where the settings stand.
func TestDestinationsThatCannotTakeOver(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	good := amended{settings: fmt.Sprintf("path: %q", d.Path("p.jsonl"))}
	d.become(good, 20000)
	failed := func(text, want string) {
		t.Helper()
		before := d.declared("p").Generation
		d.Save("p.yaml", text)
		d.Wait("its failure", func() bool {
			decl, s := d.declared("p"), d.State("p")
			return decl.Generation > before && s.LastAttempt.Generation == decl.Generation && s.LastAttempt.Error != "" && s.RunningGeneration == 1
		})
		if text := d.State("p").LastAttempt.Error; !strings.Contains(text, want) {
			t.Errorf("the attempt failed with %q, want %q", text, want)
		}
		d.grown("p.jsonl")
	}
	failed(amended{settings: "pth: x"}.text(20000), "p.yaml:12:25") // line and column of the setting
	failed(amended{settings: good.settings, more: "    processors: [{id: x, plugin: no.such}]\n"}.text(20000), `cannot find processor "no.such"`)
	if n := d.starts("p"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	failed(amended{settings: fmt.Sprintf("path: %q", d.Path("missing/p.jsonl"))}.text(20000), "cannot open destination p:dst")
	if n := d.starts("p"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
	d.become(amended{settings: fmt.Sprintf("path: %q, fsync: true", d.Path("p.jsonl"))}, 20000)
	if n := d.starts("p"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
	d.Stop()
	wantConsecutive(t, numbers(t, d.Path("p.jsonl")))
}

// The dead-letter queue of a pipeline whose destination refuses everything is moved from
// file to file: every record is a dead letter, once and in order, and both processes stay.
func TestDeadLetterQueueChangesUnderLoad(t *testing.T) {
	effort.Long(t)
	dir := agenttest.NewDir(t)
	install(t, dir, "journal", "chaos")
	d := deskIn(t, dir)
	names := []string{"one.jsonl", "two.jsonl"}
	version := func(i, window int) amended {
		return amended{source: "journal", destination: "chaos", settings: "mode: refuse", more: fmt.Sprintf(
			"    dead-letter-queue: {plugin: file, settings: {path: %q}, window-size: %d, window-nack-threshold: %[2]d}\n", d.Path(names[i%2]), window)}
	}
	d.become(version(0, 0), 0)
	d.grown(names[0])
	before := children(os.Getpid())
	for i := 1; i <= 20; i++ {
		d.become(version(i, 0), 0)
		d.grown(names[i%2])
	}
	if now := children(os.Getpid()); !slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(before))) {
		t.Errorf("processes %v became %v", before, now)
	}
	d.started("p", 1)
	d.Stop()
	wantAll(t, deadLetters(t, d.Path("one.jsonl")), deadLetters(t, d.Path("two.jsonl")))
}

// deadLetters returns the numbers of the records in a file of dead letters.
func deadLetters(t *testing.T, path string) (out []int) {
	t.Helper()
	for _, line := range completeLines(path) {
		var r struct{ Position []byte }
		var n int
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(r.Position), "p:src/%d", &n); err != nil {
			t.Fatalf("%s: dead letter at %q: %v", filepath.Base(path), r.Position, err)
		}
		out = append(out, n)
	}
	return out
}
