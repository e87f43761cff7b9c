package cluster_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

const ttl = 6 * time.Second

// fleet is a cluster with pipelines that copy files line by line.
type fleet struct {
	t       *testing.T
	dir     string
	servers []*server.NATS
	members []*member
	written []int          // lines, by pipeline
	terms   map[int]string // further fields, by pipeline
	marks   []mark         // by pipeline: at the last checkpoint
	behind  string         // template of the text after a number in the output
}

// mark is the output of a pipeline up to a checkpoint.
type mark struct{ line, bytes int }

func newFleet(t *testing.T, servers, members, pipelines int, lives time.Duration) *fleet {
	t.Helper()
	all := server.StartNATS(t, servers)
	f := joined(t, slices.Repeat([]string{urlsOf(all)}, members), pipelines, lives)
	f.servers = all
	return f
}

// urlsOf returns the server addresses of a cluster.
func urlsOf(servers []*server.NATS) string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// joined returns a fleet with a member for each of the NATS addresses, with further settings. All members have joined.
func joined(t *testing.T, members []string, pipelines int, ttl time.Duration, set ...func(*config.Config)) *fleet {
	t.Helper()
	f := gathered(t, members, pipelines, ttl, set...)
	f.start()
	return f
}

// gathered is joined without starting any member.
func gathered(t *testing.T, members []string, pipelines int, ttl time.Duration, set ...func(*config.Config)) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), written: make([]int, pipelines)}
	if err := os.Mkdir(filepath.Join(f.dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, urls := range members {
		m := newMember(t, fmt.Sprint("m", i), filepath.Join(f.dir, "pipelines"), urls, ttl)
		f.members = append(f.members, m)
		for _, change := range set {
			change(&m.config)
		}
	}
	return f
}

// start starts the members, and declares the pipelines once all members know each other.
func (f *fleet) start() {
	f.t.Helper()
	for _, m := range f.members {
		m.start()
	}
	for _, m := range f.members {
		m.awaitLog("reason=Joined")
	}
	for _, m := range f.members { // wait until every member has passed the time in which it leaves pipelines to others
		m.awaitCluster("all are there", func(c *spec.Cluster) bool {
			return len(c.Members) == len(f.members) && !slices.ContainsFunc(c.Members, func(m spec.ClusterMember) bool {
				return time.Since(m.StartedAt) < 3*time.Second
			})
		})
	}
	for i := range f.written {
		f.declare(i)
	}
}

// member returns the member with a name.
func (f *fleet) member(name string) *member {
	f.t.Helper()
	for _, m := range f.members {
		if m.name == name {
			return m
		}
	}
	f.t.Fatalf("there is no member %q", name)
	return nil
}

func (f *fleet) in(i int) string  { return filepath.Join(f.dir, fmt.Sprintf("in-%d", i)) }
func (f *fleet) out(i int) string { return filepath.Join(f.dir, fmt.Sprintf("out-%d", i)) }

func (f *fleet) declare(i int) {
	f.t.Helper()
	yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p%d
    status: running
    %s
    connectors:
      - {id: in, type: source, plugin: "builtin:file", settings: {path: %q}}
      - id: out
        type: destination
        plugin: builtin:file
        settings: {path: %q, sdk.record.format: template,
          sdk.record.format.options: '{{ printf "%%s" .Payload.After }}%s'}
`, i, f.terms[i], f.in(i), f.out(i), f.behind)
	for path, text := range map[string]string{f.in(i): "",
		filepath.Join(f.dir, "pipelines", fmt.Sprintf("p%d.yaml", i)): yaml} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			f.t.Fatal(err)
		}
	}
}

// feed adds lines, numbered from 1, to the input of every pipeline.
func (f *fleet) feed(lines int) {
	f.t.Helper()
	for i := range f.written {
		file, err := os.OpenFile(f.in(i), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			f.t.Fatal(err)
		}
		var text strings.Builder
		for range lines {
			f.written[i]++
			fmt.Fprintln(&text, f.written[i])
		}
		if _, err := file.WriteString(text.String()); err != nil {
			f.t.Fatal(err)
		}
		_ = file.Close()
	}
}

// arrived returns the largest number that a pipeline wrote, and how many numbers it wrote more than once. Without
// repeats, the numbers must count up.
func (f *fleet) arrived(i int) (greatest, repeats int) {
	f.t.Helper()
	file, err := os.Open(f.out(i))
	if err != nil {
		return 0, 0
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		number, _, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil:
			f.t.Fatalf("pipeline p%d wrote the line %q", i, lines.Text())
		case n == greatest+1:
			greatest = n
		case n <= greatest:
			repeats++
		default:
			f.t.Fatalf("pipeline p%d wrote line %d after line %d", i, n, greatest)
		}
	}
	return greatest, repeats
}

// await waits until every line has arrived, and returns the time until then.
func (f *fleet) await() time.Duration {
	f.t.Helper()
	all := make([]int, len(f.written))
	for i := range all {
		all[i] = i
	}
	return f.awaitOf(all...)
}

// awaitOf waits until every line of some pipelines has arrived.
func (f *fleet) awaitOf(pipelines ...int) time.Duration {
	f.t.Helper()
	begin, missing := time.Now(), ""
	wait.For(f.t, "all lines", func() bool {
		for _, i := range pipelines {
			if n, _ := f.arrived(i); n != f.written[i] {
				missing = fmt.Sprintf("pipeline p%d wrote %d of %d lines", i, n, f.written[i])
				return false
			}
		}
		return true
	}, func() string { return missing })
	return time.Since(begin)
}

// checkpoint waits until a member sees the positions behind all lines. It checks that no line before the position of
// the previous checkpoint was repeated since. No member may be paused that would write when it continues.
func (f *fleet) checkpoint(m *member) {
	f.t.Helper()
	f.await()
	marks := make([]mark, len(f.written))
	for i := range f.written {
		read, err := os.Stat(f.in(i))
		if err != nil {
			f.t.Fatal(err)
		}
		answer := ""
		wait.For(f.t, fmt.Sprintf("the position of p%d to be saved", i), func() bool {
			var saved bool
			saved, answer = m.saved(fmt.Sprintf("p%d:in", i), read.Size())
			return saved
		}, func() string { return answer })
		marks[i] = f.noneBefore(i)
	}
	f.marks = marks
}

// saved reports whether the saved position of a connector that reads a file is at the given number of bytes, and
// returns the answer.
func (m *member) saved(connectorID string, bytes int64) (saved bool, answer string) {
	m.t.Helper()
	var p rest.Position
	// A member that has just started does not answer yet.
	status, answer := m.request("GET", "/v1/connectors/"+connectorID+"/position", "")
	return status == http.StatusOK && json.Unmarshal([]byte(answer), &p) == nil &&
		strings.HasPrefix(string(p.Position), fmt.Sprintf("%d;", bytes)), answer
}

// noneBefore checks that a pipeline wrote no line from before its mark since then, and returns the next mark.
func (f *fleet) noneBefore(i int) (next mark) {
	f.t.Helper()
	var last mark
	if f.marks != nil {
		last = f.marks[i]
	}
	text, err := os.ReadFile(f.out(i))
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text[last.bytes:])) {
		if n, _ := strconv.Atoi(line); n <= last.line {
			f.t.Fatalf("pipeline p%d repeats line %d, and the position behind line %d was saved", i, n, last.line)
		}
	}
	return mark{f.written[i], len(text)}
}

// TestFailover kills, pauses and stops members: every line arrives, in order, and no line is repeated that was read
// before the last checkpoint.
func TestFailover(t *testing.T) {
	load.Parallel(t, 3*load.Server+3*load.Agent)
	f := newFleet(t, 3, 3, 6, ttl)
	f.feed(100)
	t.Logf("first lines: %v", f.await())
	f.checkpoint(f.members[1])
	f.members[0].kill()
	f.feed(100)
	t.Logf("after a kill: %v", f.await())
	f.checkpoint(f.members[1])
	f.members[0].start()
	f.members[1].stop()
	f.feed(100)
	t.Logf("after a member left: %v", f.await())
	f.checkpoint(f.members[0])
	f.members[1].start()
	f.members[2].signal(syscall.SIGSTOP)
	f.feed(100)
	t.Logf("while a member is paused: %v", f.await())
	f.members[2].signal(syscall.SIGCONT)
	f.feed(100)
	t.Logf("when it goes on: %v", f.await())
	f.checkpoint(f.members[0])
	repeats := 0
	for i := range f.written {
		_, r := f.arrived(i)
		repeats += r
	}
	t.Logf("%d lines, %d repeats", 6*500, repeats)
	moved := 0 // pipelines whose owner changed
	for _, m := range f.members {
		moved += strings.Count(m.log.String(), "reason=TookOver")
	}
	if moved == 0 {
		t.Error("no pipeline was taken over from a member that was killed or paused")
	}
}
