package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// killable is an agent in a separate process, which is killed.
type killable struct {
	t   *testing.T
	dir string
	*process.Process
	api *client.Client
}

// live starts the agent and returns when its API answers and lists the pipeline.
func (m *killable) live() {
	m.t.Helper()
	address := filepath.Join(m.dir, "address")
	_ = os.Remove(address)
	m.Process = process.Start(m.t, m.dir, process.AddressFile+"="+address)
	m.WaitFor(m.t, "the pipeline", func() bool {
		text, err := os.ReadFile(address)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		m.api = &client.Client{URL: "http://" + strings.TrimSpace(string(text))}
		_, _, err = m.api.Pipeline(m.t.Context(), "p")
		return err == nil
	})
}

// deadLetters returns the line numbers of the dead letters, oldest first.
func (m *killable) deadLetters() (all []int) {
	m.t.Helper()
	for before := int64(0); ; {
		page, err := m.api.DeadLetters(m.t.Context(), "p", spec.DeadLetterFilter{}, before, 1000)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, l := range page.DeadLetters {
			one, err := m.api.DeadLetter(m.t.Context(), "p", fmt.Sprint(l.ID))
			if err != nil {
				m.t.Fatal(err)
			}
			r, err := record.ParseReadable(one.Record)
			if err != nil {
				m.t.Fatal(err)
			}
			raw, _ := r.After.Raw()
			all = append([]int{lineNumber(m.t, string(raw))}, all...)
		}
		if before = page.Next; before == 0 {
			return all
		}
	}
}

func lineNumber(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(text, "bad "))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// written returns the numbers of the lines that arrived. It skips lines that a kill tore.
func (m *killable) written() (all []int) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "out.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r record.Record
		if json.Unmarshal([]byte(line), &r) != nil {
			continue
		}
		raw, _ := r.After.Raw()
		all = append(all, lineNumber(m.t, string(raw)))
	}
	return all
}

func (m *killable) save(condition string) {
	m.t.Helper()
	file := []byte(agenttest.Picky(m.dir, condition, agenttest.Tolerant))
	if err := os.WriteFile(filepath.Join(m.dir, "pipelines", "p.yaml"), file, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// Whenever the agent is killed, each refused record is one dead letter, and no other record is. A kill during a replay
// repeats some dead letters and loses none.
func TestKillLosesNoDeadLetters(t *testing.T) {
	load.Parallel(t, load.Agent)
	const bad = 20 // one bad line of so many
	m := &killable{t: t, dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(m.dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.save(agenttest.IsBad)
	ctx, stop := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- feedRefused(ctx, filepath.Join(m.dir, "in.log"), bad) }()
	n := max(4, *kills/10)
	for range n {
		m.live()
		m.AwaitBytes(t, m.output(), rand.Int64N(60_000))
		m.Kill()
	}
	stop()
	last := <-lines

	m.live()
	kept := m.refusedOf(last, bad)
	before := len(m.written())
	m.Kill()

	m.save(`{{ contains "no such line" (printf "%s" .Payload.After) }}`)
	replays := m.replayWithKills(n, kept, before)
	m.Terminate(t)
	t.Logf("%d lines, %d kills, %d dead letters, %d replays, %d repeated", last, n+replays, len(kept), replays,
		len(m.written())-before-len(kept))
}

func (m *killable) output() string { return filepath.Join(m.dir, "out.jsonl") }

// refusedOf waits until the lines up to last have arrived, and returns the numbers of the dead letters, which are
// exactly the multiples of bad.
func (m *killable) refusedOf(last, bad int) []int {
	m.t.Helper()
	m.WaitFor(m.t, "all lines", func() bool {
		all := m.written()
		return len(all) > 0 && all[len(all)-1] >= last-1
	})
	m.WaitFor(m.t, "the last dead letter", func() bool {
		all := m.deadLetters()
		return len(all) > 0 && all[len(all)-1] >= last/bad*bad
	})
	kept := m.deadLetters()
	for i, number := range kept {
		if number != (i+1)*bad {
			m.t.Fatalf("dead letter %d is line %d, want %d", i+1, number, (i+1)*bad)
		}
	}
	if len(kept) != last/bad {
		m.t.Errorf("%d of %d lines were refused, kept are %d", last/bad, last, len(kept))
	}
	return kept
}

// replayWithKills replays the dead letters until none is left, and kills the agent in n of the replays. It returns the
// number of replays.
func (m *killable) replayWithKills(n int, kept []int, before int) (replays int) {
	m.t.Helper()
	for ; ; replays++ {
		m.live()
		left := m.deadLetters()
		m.checkReplayed(kept, left, before)
		if len(left) == 0 {
			return replays
		}
		from := agenttest.FileSize(m.output())
		if _, err := m.api.ReplayDeadLetters(m.t.Context(), "p", spec.ReplayRequest{All: true}); err != nil {
			m.t.Fatal(err)
		}
		if replays < n && rand.IntN(2) == 0 {
			m.AwaitSize(m.t, m.output(), from+rand.Int64N(int64(len(left))*100)) // of more than 100 bytes each
		} else {
			m.WaitFor(m.t, "the replay to get on", func() bool {
				s, err := m.api.Replay(m.t.Context(), "p")
				return err == nil && (!s.Running || s.Settled > 0 && replays < n)
			})
		}
		m.Kill()
	}
}

// checkReplayed checks that each of the kept dead letters is left or written after the first lines, in order but for
// repeats.
func (m *killable) checkReplayed(kept, left []int, skip int) {
	m.t.Helper()
	there := map[int]bool{}
	for _, number := range left {
		there[number] = true
	}
	newest := 0
	for _, number := range m.written()[skip:] {
		if there[number] = true; number > newest {
			if number != newest+kept[0] {
				m.t.Errorf("%d is replayed first behind %d", number, newest)
			}
			newest = number
		}
	}
	for _, number := range kept {
		if !there[number] {
			m.t.Fatalf("dead letter of line %d is lost; left are %v", number, left)
		}
	}
}

// feedRefused appends numbered lines until ctx ends, one bad line of every so many, and returns their number.
func feedRefused(ctx context.Context, path string, every int) int {
	return process.Feed(ctx, path, 10, func(n int) string {
		if n%every == 0 {
			return fmt.Sprint("bad ", n)
		}
		return strconv.Itoa(n)
	})
}
