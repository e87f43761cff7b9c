// Package prove_test checks conduit prove, which kills an agent.
package prove_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/prove"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/spec"
)

// TestMain makes the test binary an agent, a stand-in, or the tests.
func TestMain(m *testing.M) {
	sandbox.Launch()
	switch {
	case prove.IsStandIn():
		prove.Serve()
	case len(os.Args) == 2 && os.Args[1] == "run":
		if err := runAgent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

func runAgent() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, _, err := config.Load(config.Sources{Env: os.Environ()})
	if err != nil {
		return err
	}
	return agent.Run(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(),
		Log: slog.New(slog.NewJSONHandler(os.Stderr, nil))})
}

const files = `version: "2.2"
pipelines:
  - id: orders
    connectors:
      - {id: db, type: source, plugin: builtin:postgres, settings: {url: "postgres://nowhere.invalid/shop"}}
      - {id: bus, type: source, plugin: standalone:bus@v1.2.3}
      - id: lake
        type: destination
        plugin: builtin:http
        settings: {url: "http://nowhere.invalid"}
        processors: [{id: stamp, plugin: field.set, settings: {field: .Metadata.team, value: orders}}]
      - id: archive
        type: destination
        plugin: builtin:file
        condition: '{{ eq .Metadata.kind "old" }}'
        settings: {path: /nowhere/archive}
    processors:
      - {id: ask, plugin: webhook.http, settings: {request.url: "http://nowhere.invalid"}}
      - {id: half, plugin: split, settings: {field: .Payload.After.parts}}
`

func pipelines(t *testing.T) (all []spec.Pipeline) {
	t.Helper()
	f := spec.ParseFile("orders.yaml", []byte(files))
	for _, one := range f.Pipelines {
		all = append(all, one.Pipeline)
	}
	if len(all) == 0 {
		t.Fatal(f.Problems)
	}
	return all
}

func run(t *testing.T, sabotage string, kills, seed int) *prove.Report {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	r, err := prove.Run(t.Context(), prove.Options{
		Pipelines: pipelines(t), Registry: &processor.Registry{Builtin: processors.All()},
		Command: []string{own, "run"}, Env: os.Environ(),
		Dir: t.TempDir(), Kills: kills, Time: 5*time.Minute + time.Duration(kills)*10*time.Second, Seed: uint64(seed),
		Progress: &progress, Sabotage: sabotage,
	})
	if r != nil && r.AgentLog != "" && sabotage == "" {
		log, _ := os.ReadFile(r.AgentLog)
		t.Logf("%s", log[max(0, len(log)-16<<10):])
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	kills = flag.Int("kills", 3, "number of kills of the agent")
	seed  = flag.Int("seed", 1, "of the first proof")
)

// killsOfOne is the maximum number of kills per proof. More kills are divided among several proofs, and some of
// these run at once.
const killsOfOne = 100

// The agent keeps its promises for pipelines whose systems are all unreachable.
func TestPromisesHold(t *testing.T) {
	load.Parallel(t, load.CPU)
	var all sum
	t.Run("proofs", func(t *testing.T) {
		for first := 0; first < *kills; first += killsOfOne {
			t.Run(strconv.Itoa(first+1), func(t *testing.T) {
				t.Parallel()
				all.add(promisesHold(t, min(killsOfOne, *kills-first), *seed+first/killsOfOne))
			})
		}
	})
	t.Logf("%d proofs from seed %d on: %+v, %d records, at most %d repeated in a row", all.proofs, *seed, all.faults,
		all.records, all.longest)
}

// sum holds the totals of several proofs.
type sum struct {
	mu               sync.Mutex
	proofs           int
	faults           prove.Faults
	records, longest int64
}

func (s *sum) add(r *prove.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, one := reflect.ValueOf(&s.faults).Elem(), reflect.ValueOf(r.Faults)
	for i := range all.NumField() {
		all.Field(i).SetInt(all.Field(i).Int() + one.Field(i).Int())
	}
	for _, f := range r.Flows {
		s.records, s.longest = s.records+f.Arrived, max(s.longest, f.Longest)
	}
	s.proofs++
}

// promisesHold kills the agent the given number of times.
func promisesHold(t *testing.T, kills, seed int) *prove.Report {
	t.Helper()
	r := run(t, "", kills, seed)
	t.Logf("%+v", *r)
	if !r.Held || len(r.Broken) > 0 || r.Faults.Kills != kills || len(r.Flows) != 4 {
		t.Errorf("held: %v, broken: %q, %d kills, %d flows", r.Held, r.Broken, r.Faults.Kills, len(r.Flows))
	}
	const least = 2 // the last two starts, without faults, wait for a record on every flow
	for _, f := range r.Flows {
		if f.Arrived < least || f.Acked < least || f.Lost+f.Reordered > 0 {
			t.Errorf("%+v", f)
		}
	}
	var notes strings.Builder
	for _, n := range r.Notes {
		fmt.Fprintln(&notes, n.What, n.Why)
	}
	for _, want := range []string{"orders:ask (webhook.http) left out: it asks another system",
		"orders:half (split) left out", "conditions of the destinations of orders left out"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("the notes lack %q:\n%s", want, notes.String())
		}
	}
	if strings.Contains(notes.String(), "stamp") {
		t.Errorf("a processor that could be kept is left out:\n%s", notes.String())
	}
	return r
}

// A destination that loses, repeats or reorders acknowledged records makes the proof fail.
func TestBrokenPromisesAreFound(t *testing.T) {
	load.Parallel(t, load.CPU)
	for sabotage, wants := range map[string][]string{
		"lose":    {"records are lost"},
		"double":  {"the stream went back", "records are repeated after a stop with SIGTERM"}, // before or after a kill
		"reorder": {"records are out of order"},
	} {
		t.Run(sabotage, func(t *testing.T) {
			t.Parallel()
			r := run(t, sabotage, 1, 1)
			broken := strings.Join(r.Broken, "\n")
			if r.Held || !slices.ContainsFunc(wants, func(want string) bool { return strings.Contains(broken, want) }) {
				t.Errorf("held: %v, broken: %q, want one of %q; %+v", r.Held, r.Broken, wants, r.Flows)
			}
		})
	}
}
