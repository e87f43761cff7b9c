package cluster_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestStateOnHost has pipelines with state on their hosts: without a setting for that state no member runs them;
// pipelines that move start without it; local pipelines run on the members with their labels and keep it.
func TestStateOnHost(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	url := server.StartNATS(t, 1)[0].URL()
	names := 0
	f := joined(t, []string{url, url}, 0, ttl, func(c *config.Config) {
		c.Cluster.Labels = fmt.Sprintf("host=h%d", names)
		names++
	})
	const silent, moves, stays, spools = 0, 1, 2, 3
	const dedupe = "\n    processors: [{id: once, plugin: dedupe, settings: {key: .Payload.After}}]"
	f.written, f.terms = make([]int, 4), map[int]string{
		silent: "description: says nothing" + dedupe,
		moves:  "cluster: strict" + dedupe,
		stays:  "cluster: local\n    placement: {labels: {host: h1}}" + dedupe,
		spools: "dead-letter-queue: {plugin: 'builtin:log'}",
	}
	for i := range f.written {
		f.declare(i)
	}
	spool := fmt.Sprintf("%s/pipelines/p%d.yaml", f.dir, spools)
	replace(t, spool, "plugin: builtin:file", "plugin: builtin:spool")
	for _, m := range f.members {
		for i, says := range map[int]string{silent: "remembers keys on the disk of the host",
			spools: "keeps records on the disk of the host"} {
			wait.For(t, fmt.Sprintf("%s to refuse the file of p%d", m.name, i), func() bool {
				return strings.Contains(m.call("GET", "/v1/files"), says)
			})
		}
	}
	say := func(lines ...string) {
		for i := range f.written {
			appendTo(t, f.in(i), strings.Join(lines, "\n")+"\n")
		}
	}
	wrote := func(i int) string {
		text, _ := os.ReadFile(f.out(i))
		return strings.Join(strings.Fields(string(text)), " ")
	}
	await := func(i int, want string) {
		t.Helper()
		wait.For(t, fmt.Sprintf("p%d to write %q", i, want), func() bool {
			return wrote(i) == want
		}, func() string { return wrote(i) })
	}
	say("a", "a", "b")
	await(moves, "a b")
	await(stays, "a b")
	from := f.member(f.owner(fmt.Sprint("p", moves)))
	from.call("POST", "/v1/cluster/drain")
	f.members[1].stop()
	f.members[1].start()
	if from == f.members[0] {
		f.members[1].awaitLog("reason=Joined")
	}
	say("a", "c")
	await(moves, "a b a c") // its state of a is lost
	await(stays, "a b c")   // its state of a is kept
	for _, m := range f.members {
		c := decoded[spec.Cluster](m, "GET", "/v1/cluster")
		for _, p := range c.Pipelines {
			if p.ID == fmt.Sprint("p", silent) || p.ID == fmt.Sprint("p", spools) {
				t.Errorf("%s has %+v, whose file says nothing of what it keeps", m.name, p)
			}
		}
	}
	if got := wrote(silent) + wrote(spools); got != "" {
		t.Errorf("pipelines that are refused write %q", got)
	}
}

var heldRecords = regexp.MustCompile(`conduit_connector_records_total\{[^}]*p0:in[^}]*\} 7\n`)

// TestOpenWindowsMove moves a pipeline while windows are open: their records were not acknowledged, and the next owner
// reads them again, once.
func TestOpenWindowsMove(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	url := server.StartNATS(t, 1)[0].URL()
	f := joined(t, []string{url, url}, 0, ttl)
	f.written, f.terms = make([]int, 1),
		map[int]string{0: "processors: [{id: sum, plugin: aggregate, settings: {window.size: 1h, window.records: " +
			"'10', fields.n: count}}]"}
	f.behind = ` {{ .Payload.After.n }}`
	f.declare(0)
	replace(t, f.dir+"/pipelines/p0.yaml", `{{ printf "%s" .Payload.After }}`, "n")
	f.feed(7)
	owner := f.member(f.owner("p0"))
	owner.awaitCluster("it runs the pipeline", func(c *spec.Cluster) bool { return owned(c, owner.name) == 1 })
	wait.For(t, "the records to be held", func() bool {
		return heldRecords.MatchString(owner.call("GET", "/metrics"))
	}, func() string { return owner.call("GET", "/metrics") })
	owner.call("POST", "/v1/cluster/drain")
	f.feed(13)
	total := func() (n int) {
		text, _ := os.ReadFile(f.out(0))
		for _, field := range strings.Fields(strings.ReplaceAll(string(text), "n", "")) {
			one, err := strconv.Atoi(field)
			if err != nil {
				t.Fatalf("%q is no count", field)
			}
			n += one
		}
		return n
	}
	wait.For(t, "all records to be counted", func() bool {
		return total() >= 20
	}, func() string { return fmt.Sprint(total()) })
	if n := total(); n != 20 {
		t.Errorf("%d of 20 records were counted", n)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// replace replaces the last occurrence of a text in a file.
func replace(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(string(text), old)
	if at < 0 {
		t.Fatalf("%s has no %q:\n%s", path, old, text)
	}
	if err := os.WriteFile(path, []byte(string(text[:at])+with+string(text[at+len(old):])), 0o644); err != nil {
		t.Fatal(err)
	}
}
