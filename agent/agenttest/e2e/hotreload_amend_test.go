package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// A destination that is stuck in a write delays the change and nothing else; the records that wait for it go to its
// replacement.
func TestASlowDestinationIsReplaced(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	d.Must(mkfifo(d.Path("pipe")))
	pipe, err := os.OpenFile(d.Path("pipe"), os.O_RDWR, 0) // it has no reader yet
	d.Must(err)
	const end = '\x00' // in no record
	read := make(chan []byte, 1)
	drain := sync.OnceFunc(func() {
		go func() {
			piped, err := bufio.NewReader(pipe).ReadBytes(end)
			if err != nil {
				t.Error(err)
			}
			read <- bytes.TrimSuffix(piped, []byte{end})
		}()
	})
	t.Cleanup(drain) // otherwise the agent cannot end
	d.Save("p.yaml", agenttest.Variant{Settings: fmt.Sprintf("path: %q", d.Path("pipe"))}.Text(20000))
	d.WaitPhase("p", spec.PhaseRunning, 1)
	got := func(stage string) int {
		return int(agenttest.Scrape(t, d.Agent,
			fmt.Sprintf(`conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="p",stage=%q}`,
				stage)))
	}
	last, same := 0, 0
	d.Wait("records to queue up, and the source to stop for them", func() bool {
		read := got("read")
		if read != last || read <= got("settled") {
			last, same = read, 0
		}
		same++
		return same == 10
	})
	d.Save("p.yaml", agenttest.Variant{Settings: fmt.Sprintf("path: %q", d.Path("p.jsonl"))}.Text(20000))
	d.Save("q.yaml", d.Generated("q", 1))
	d.Runs("q", 1)
	if s := d.State("p"); s.RunningGeneration != 1 || s.Phase != spec.PhaseRunning {
		t.Errorf("while the old destination writes: %+v", s)
	}
	before := got("read")
	drain()
	d.WaitPhase("p", spec.PhaseRunning, 2)
	d.WaitGrowth("p.jsonl")
	d.WantStarts("p", 1)
	d.Stop()
	_, err = pipe.Write([]byte{end})
	d.Must(err)
	d.Must(os.WriteFile(d.Path("piped"), <-read, 0o600))
	old, replacement := agenttest.Numbers(t, d.Path("piped")), agenttest.Numbers(t, d.Path("p.jsonl"))
	if agenttest.WantAll(t, old, replacement); replacement[0] > before {
		t.Errorf("the first %d of %d records that waited went to the old destination", replacement[0]-1, before)
	}
}

// A destination that refuses its settings is never called, and one that cannot be opened is rolled back: nothing is
// lost or repeated. The error gives the line and column of the setting.
func TestDestinationsThatCannotTakeOver(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	good := agenttest.Variant{Settings: fmt.Sprintf("path: %q", d.Path("p.jsonl"))}
	d.Become(good, 20000)
	failed := func(text, want string) {
		t.Helper()
		before := d.Declared("p").Generation
		d.Save("p.yaml", text)
		d.Wait("its failure", func() bool {
			decl, s := d.Declared("p"), d.State("p")
			return decl.Generation > before && s.LastAttempt.Generation == decl.Generation &&
				s.LastAttempt.Error != "" && s.RunningGeneration == 1
		})
		if text := d.State("p").LastAttempt.Error; !strings.Contains(text, want) {
			t.Errorf("the attempt failed with %q, want %q", text, want)
		}
		d.WaitGrowth("p.jsonl")
	}
	failed(agenttest.Variant{Settings: "pth: x"}.Text(20000), "p.yaml:12:25") // line and column of the setting
	failed(agenttest.Variant{Settings: good.Settings, More: "    processors: [{id: x, plugin: no.such}]\n"}.Text(20000),
		`cannot find processor "no.such"`)
	if n := d.Starts("p"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	failed(agenttest.Variant{Settings: fmt.Sprintf("path: %q", d.Path("missing/p.jsonl"))}.Text(20000),
		"cannot open destination p:dst")
	if n := d.Starts("p"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
	d.Become(agenttest.Variant{Settings: fmt.Sprintf("path: %q, fsync: true", d.Path("p.jsonl"))}, 20000)
	if n := d.Starts("p"); n != 2 {
		t.Errorf("it was started %d times", n)
	}
	d.Stop()
	agenttest.WantConsecutive(t, agenttest.Numbers(t, d.Path("p.jsonl")))
}
