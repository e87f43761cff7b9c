package crash_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

const spoolPipelines = `version: "2.2"
pipelines:
  - id: in
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s/input.log}}
      - {id: dst, type: destination, plugin: builtin:spool, settings: {path: %[1]s/spool}}
  - id: out
    connectors:
      - {id: src, type: source, plugin: builtin:spool, settings: {path: %[1]s/spool}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %[1]s/out.jsonl}}
`

// A kill -9 at any moment loses nothing on the way through a spool, and reorders nothing.
func TestKillLosesNothingInSpool(t *testing.T) {
	load.Parallel(t, load.Agent)
	const rate = 5000 // records per second
	dir := t.TempDir()
	process.WritePipelines(t, dir, fmt.Sprintf(spoolPipelines, dir))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- process.FeedLines(feed, filepath.Join(dir, "input.log"), rate) }()

	out := filepath.Join(dir, "out.jsonl")
	n := max(3, *kills*3/10)
	for range n {
		p := process.Start(t, dir)
		p.WaitGrowth(t, out)
		p.AwaitBytes(t, out, rand.Int64N(80_000)) // any moment
		p.Kill()
	}
	fed()
	want := <-lines
	process.CatchUp(t, dir, out, want)
	spoolArrived(t, out, want, n)
}

// spoolArrived checks that the lines up to want are in the file, each after its predecessor or as a repetition. The
// number of steps back has no bound: records repeated into the spool are repeated in the output, too. So a step back in
// the spool may lead to a later line, if that line has already arrived.
func spoolArrived(t *testing.T, path string, want, ends int) {
	t.Helper()
	last, highest, back, torn, at := 0, 0, 0, 0, uint64(0)
	for line := range process.LinesOf(t, path) {
		e, err := parseSpooled(line)
		switch {
		case err != nil:
			torn++
			continue
		case e.Number > highest+1, e.Number > last+1 && e.place > at:
			t.Fatalf("%d, at %x of the spool, follows %d, at %x; %d was the highest", e.Number, e.place, last, at,
				highest)
		case e.Number <= last:
			back++
		}
		last, highest, at = e.Number, max(highest, e.Number), e.place
	}
	t.Logf("%d records, the agent ended %d times, %d steps back, %d torn lines", highest, ends, back, torn)
	if highest != want {
		t.Errorf("%d of %d lines arrived", highest, want)
	}
	if torn > ends {
		t.Errorf("%d torn lines although the agent ended %d times", torn, ends)
	}
}

// TestSpoolArrivedReadsLongLines has a torn line of more than 1 MiB, such as the zeros that a power cut leaves.
func TestSpoolArrivedReadsLongLines(t *testing.T) {
	load.Parallel(t, load.Agent)
	record := func(n int) string {
		encode := base64.StdEncoding.EncodeToString
		return fmt.Sprintf("{\"position\":%q,\"metadata\":{\"opencdc.readAt\":\"1\"},\"payload\":{\"after\":%q}}\n",
			encode(fmt.Appendf(nil, "1:%x", n)), encode(fmt.Append(nil, n)))
	}
	path := filepath.Join(t.TempDir(), "out")
	text := record(1) + strings.Repeat("\x00", 2<<20) + "\n" + record(2)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	spoolArrived(t, path, 2, 1)
}

// spooled is a line from a spool, with its place there.
type spooled struct {
	process.Entry
	place uint64
}

func parseSpooled(line []byte) (s spooled, err error) {
	if s.Entry, err = process.Parse(line); err != nil {
		return s, err
	}
	var r struct{ Position []byte }
	if err := json.Unmarshal(line, &r); err != nil {
		return s, err
	}
	_, place, _ := strings.Cut(string(r.Position), ":")
	s.place, err = strconv.ParseUint(place, 16, 64)
	return s, err
}

// The example on the page about spools works as described.
func TestSpoolExample(t *testing.T) {
	page, err := os.ReadFile("../../../../cmd/conduit/docs/SPOOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	for _, path := range []string{"app.log", "spool", "copy.jsonl"} {
		example = strings.ReplaceAll(example, "path: "+path, "path: "+filepath.Join(dir, path))
	}
	if err := os.Mkdir(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "example.yaml"), []byte(example), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "app.log"), []byte("1\n2\n3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "copy.jsonl")
	process.CatchUp(t, dir, out, 3)
	spoolArrived(t, out, 3, 0)
}
