package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestManyPipelines starts several agents, each in a separate process, which share pipelines that wait for records. It
// logs the resources that agents and servers use. The number of idle writes must not grow with the number of pipelines.
func TestManyPipelines(t *testing.T) {
	load.Parallel(t, *manyServers*load.Server+*manyMembers*load.Agent)
	pipelines := *manyPipelines
	f := newFleet(t, *manyServers, *manyMembers, 0, 20*time.Second)
	f.usage("without a pipeline")
	f.declareMany(pipelines)
	begin := time.Now()
	limit := begin.Add(wait.Limit + time.Duration(pipelines)*100*time.Millisecond)
	for f.running() < pipelines {
		if time.Now().After(limit) {
			t.Fatalf("%d of %d pipelines run after %v", f.running(), pipelines, time.Since(begin))
		}
		time.Sleep(time.Second)
	}
	t.Logf("all run after %v, %d members have them", time.Since(begin).Round(time.Second), len(f.members))
	f.usage("all run")
	rest := *manyRest
	before, began := f.revision(), time.Now()
	wait.For(t, "a while to go by", func() bool { return time.Since(began) > rest })
	wrote, rested := f.revision()-before, time.Since(began)
	f.usage(fmt.Sprintf("%v in which nothing happened, with %d writes", rest, wrote))
	// Sessions are renewed every 4 s; updates of member entries and handovers of pipelines come on top.
	if most := uint64(len(f.members)) * uint64(2*rested/(4*time.Second)+20); wrote > most {
		t.Errorf("%d writes in %v in which nothing happened, want %d at most", wrote, rest, most)
	}
}

// declareMany declares pipelines that wait for records, 100 in a file.
func (f *fleet) declareMany(pipelines int) {
	f.t.Helper()
	empty := filepath.Join(f.dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		f.t.Fatal(err)
	}
	for first := 0; first < pipelines; first += 100 {
		var text strings.Builder
		text.WriteString("version: \"2.2\"\npipelines:\n")
		for i := first; i < min(first+100, pipelines); i++ {
			fmt.Fprintf(&text, "  - {id: many-%d, status: running, connectors: [{id: in, type: source, plugin: "+
				"'builtin:file', settings: {path: %q}}, {id: out, type: destination, plugin: 'builtin:log'}]}\n", i,
				empty)
		}
		if err := os.WriteFile(filepath.Join(f.dir, "pipelines", fmt.Sprintf("many-%d.yaml", first)),
			[]byte(text.String()), 0o644); err != nil {
			f.t.Fatal(err)
		}
	}
}

var pipelinesOfMember = regexp.MustCompile(`(?m)^conduit_cluster_pipelines (\d+)$`)

// running returns the number of pipelines whose claims members hold.
func (f *fleet) running() (n int) {
	f.t.Helper()
	for _, m := range f.members {
		if found := pipelinesOfMember.FindStringSubmatch(m.call("GET", "/metrics")); found != nil {
			count, _ := strconv.Atoi(found[1])
			n += count
		}
	}
	return n
}

// revision returns the revision of the last write to the stream.
func (f *fleet) revision() uint64 {
	f.t.Helper()
	conn, err := nats.Connect(f.servers[0].URL())
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), wait.Limit)
	defer cancel()
	stream, err := js.Stream(ctx, "KV_conduit-test")
	if err != nil {
		f.t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// usage logs the CPU time of the processes so far, and their memory.
func (f *fleet) usage(when string) {
	f.t.Helper()
	report := func(what string, pids []int) {
		var cpu time.Duration
		var memory []int
		for _, pid := range pids {
			took, kilobytes := usageOf(f.t, pid)
			cpu += took
			memory = append(memory, kilobytes/1024)
		}
		slices.Sort(memory)
		f.t.Logf("%s: %s took %v of CPU time until now, and have %v MiB", when, what, cpu.Round(10*time.Millisecond),
			memory)
	}
	var members, servers []int
	for _, m := range f.members {
		members = append(members, m.cmd.Process.Pid)
	}
	for _, s := range f.servers {
		servers = append(servers, s.Pid())
	}
	report("members", members)
	report("servers", servers)
}

// usageOf returns the CPU time of a process, and its memory without mapped files.
func usageOf(t *testing.T, pid int) (cpu time.Duration, kilobytes int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatalf("cannot read what a process takes, which needs the /proc of Linux: %v", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, behind, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(behind)
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		ticks, _ := strconv.Atoi(field)
		cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	_, behind, _ = strings.Cut(string(status), "RssAnon:")
	kilobytes, _ = strconv.Atoi(strings.Fields(behind)[0])
	return cpu, kilobytes
}
