package cluster_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestSharedLetters repeatedly kills a member while it refuses records: the other members list, replay and drop every
// one of its dead letters.
func TestSharedLetters(t *testing.T) {
	t.Parallel()
	eachStore(t, 3, testSharedLetters)
}

// refusing is a pipeline that refuses every line of a file with "bad" in it, until it is corrected.
type refusing struct {
	dir   string
	terms string // further fields
	lines int
}

func (r *refusing) in() string  { return filepath.Join(r.dir, "in") }
func (r *refusing) out() string { return filepath.Join(r.dir, "out") }

func (r *refusing) declare(t *testing.T, mended bool) {
	t.Helper()
	condition := `{{ if contains "bad" (printf "%s" .Payload.After) }}true{{ else }}false{{ end }}`
	if mended {
		condition = "false"
	}
	yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    %s
    dead-letter-queue: {window-size: 0}
    connectors:
      - {id: in, type: source, plugin: "builtin:file", settings: {path: %q}}
      - id: out
        type: destination
        plugin: builtin:file
        settings: {path: %q, sdk.record.format: template,
          sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}
    processors:
      - {id: refuse, plugin: error, condition: '%s'}
`, r.terms, r.in(), r.out(), condition)
	if err := os.WriteFile(filepath.Join(r.dir, "pipelines", "p.yaml"), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
}

// feed adds lines, every second one bad, and returns the bad ones.
func (r *refusing) feed(t *testing.T, lines int) {
	t.Helper()
	file, err := os.OpenFile(r.in(), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for range lines {
		r.lines++
		text := fmt.Sprint("good ", r.lines)
		if r.lines%2 == 0 {
			text = fmt.Sprint("bad ", r.lines)
		}
		if _, err := fmt.Fprintln(file, text); err != nil {
			t.Fatal(err)
		}
	}
}

// written returns how often each line was written.
func (r *refusing) written(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(r.out())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for line := range strings.Lines(string(text)) {
		lines[strings.TrimSpace(line)]++
	}
	return lines
}

// maxLetters is the limit of dead letters.
const maxLetters = 2000

const lettersPath = "/v1/pipelines/p/dead-letters"

// letters returns the dead letters that a member lists.
func (m *member) letters() (all []spec.DeadLetter) {
	m.t.Helper()
	for before := int64(0); ; {
		page := decoded[spec.DeadLetterPage](m, "GET", fmt.Sprintf("%s?limit=500&before=%d", lettersPath, before))
		all = append(all, page.DeadLetters...)
		if before = page.Next; before == 0 {
			return all
		}
	}
}

func (m *member) awaitLetters(n int) {
	m.t.Helper()
	count := 0
	wait.For(m.t, fmt.Sprintf("%s to list %d dead letters", m.name, n), func() bool {
		status, _ := m.request("GET", lettersPath, "")
		if status == 200 {
			count = len(m.letters())
		}
		return count == n
	}, func() string { return fmt.Sprintf("it lists %d", count) })
}

var deadLettersOf = regexp.MustCompile(`(?m)^conduit_dead_letters\{pipeline_id="p"\} (\d+)$`)

// awaitCounted waits until each member shows that the store has the given number of dead letters, in one row, and the
// sum of all members' metrics counts each once.
func awaitCounted(members []*member, n int64) {
	for _, m := range members {
		m.t.Helper()
		m.awaitCluster(fmt.Sprintf("%d dead letters are in the store", n), func(c *spec.Cluster) bool {
			return len(c.Pipelines) == 1 && c.Pipelines[0].SharedDeadLetters == n && c.Pipelines[0].DeadLetters == nil
		})
	}
	var sum int64
	wait.For(members[0].t, "the metrics of all members to have the dead letters once", func() bool {
		sum = 0
		for _, m := range members {
			for _, found := range deadLettersOf.FindAllStringSubmatch(m.call("GET", "/metrics"), -1) {
				one, _ := strconv.ParseInt(found[1], 10, 64)
				sum += one
			}
		}
		return sum == n
	}, func() string { return fmt.Sprintf("they have %d", sum) })
}

func testSharedLetters(t *testing.T, url string) {
	r := &refusing{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(r.dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	members := make([]*member, 3)
	for i := range members {
		members[i] = newMember(t, fmt.Sprint("m", i), filepath.Join(r.dir, "pipelines"), url, ttl)
		c := &members[i].config
		c.DeadLetters.Count = maxLetters
		c.Cluster.Keep, c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = time.Second, 0, 0
		members[i].start()
	}
	for _, m := range members {
		m.awaitLog("reason=Joined")
	}
	r.feed(t, 200)
	r.declare(t, false)
	for _, m := range members {
		m.awaitLetters(100)
	}
	awaitCounted(members, 100)
	members[1].send("POST", "/v1/pipelines/p/stop", "")
	members[0].awaitCluster("no member has the pipeline", func(c *spec.Cluster) bool {
		return c.Pipelines[0].Member == ""
	})
	awaitCounted(members, 100)
	members[2].send("POST", "/v1/pipelines/p/start", "")
	members[0].awaitCluster("a member has the pipeline", func(c *spec.Cluster) bool {
		return c.Pipelines[0].Member != ""
	})
	for range *kills {
		c := decoded[spec.Cluster](members[0], "GET", "/v1/cluster")
		at := slices.IndexFunc(members, func(m *member) bool { return owned(&c, m.name) > 0 })
		if at < 0 {
			t.Fatal("no member has the pipeline")
		}
		r.feed(t, 1000)
		wait.For(t, "some to be refused", func() bool { return len(r.written(t)) > r.lines/2-400 })
		members[at].kill()
		next := members[(at+1)%len(members)]
		next.awaitLetters(r.lines / 2)
		members[at].start()
		members[at].awaitLog("reason=Joined")
	}
	dropped := members[1].letters()[0]
	if one := decoded[spec.DeadLetter](members[2], "GET", fmt.Sprint(lettersPath, "/", dropped.ID)); one.ID !=
		dropped.ID || one.Record == nil {
		t.Fatalf("dead letter %d is %+v on another member", dropped.ID, one)
	}
	members[2].call("DELETE", fmt.Sprint(lettersPath, "/", dropped.ID))
	for _, m := range members {
		m.awaitLetters(r.lines/2 - 1)
	}
	r.declare(t, true)
	c := decoded[spec.Cluster](members[0], "GET", "/v1/cluster")
	idle := slices.IndexFunc(members, func(m *member) bool { return owned(&c, m.name) == 0 })
	members[idle].awaitLog("reason=Changed")
	members[idle].send("POST", "/v1/pipelines/p/dead-letter-replay", `{"all":true}`)
	for _, m := range members {
		m.awaitLetters(0)
	}
	lines := r.written(t)
	missing := 0
	for i := 1; i <= r.lines; i++ {
		if lines[fmt.Sprint("good ", i)]+lines[fmt.Sprint("bad ", i)] == 0 {
			missing++
		}
	}
	if missing != 1 {
		t.Errorf("%d of %d lines are not written, and one was dropped", missing, r.lines)
	}
	r.declare(t, false)
	wait.For(t, "the version that refuses lines to run", func() bool {
		return slices.ContainsFunc(members, func(m *member) bool {
			return strings.Contains(m.log.String(), "generation=3")
		})
	})
	before := r.lines
	r.feed(t, 2*maxLetters+600)
	wait.For(t, "all lines", func() bool { return r.written(t)[fmt.Sprint("good ", r.lines-1)] > 0 })
	for _, m := range members {
		m.awaitLetters(maxLetters)
		var totals spec.DeadLetterTotals
		// A member that is slow to renew its claim loses it, and the next owner reads some lines again.
		wait.For(t, m.name+" to count what was dropped", func() bool {
			totals = decoded[spec.DeadLetterPage](m, "GET", lettersPath).Totals
			return totals.Dropped >= uint64(r.lines-before)/2-maxLetters && totals.Count == maxLetters
		}, func() string { return fmt.Sprintf("it has %+v of %d lines", totals, r.lines-before) })
	}
	if err := os.Remove(filepath.Join(r.dir, "pipelines", "p.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		wait.For(t, m.name+" to forget the pipeline and its dead letters", func() bool {
			status, _ := m.request("GET", lettersPath, "")
			return status == http.StatusNotFound
		})
	}
}
