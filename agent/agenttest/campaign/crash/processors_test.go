package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

const processed = `version: "2.2"
pipelines:
  - id: cloned
    dead-letter-queue: {window-size: 0}
    connectors:
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/input.log}
        processors:
          - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/cloned.jsonl}
    processors:
      - {id: drop, plugin: filter, condition: '{{ eq .Payload.After.drop true }}'}
      - {id: clone, plugin: clone, settings: {count: 2}}
  - id: deduped
    connectors:
      - {id: src, type: source, plugin: "builtin:file", settings: {path: %[1]s/input.log}}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/deduped.jsonl}
        processors:
          - {id: dedupe, plugin: dedupe, settings: {key: .Payload.After.n, window.count: %[2]d}}
    processors:
      - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}
`

const gather = `      - id: gather
        plugin: aggregate
        settings:
          window.size: 10ms
          window.records: %d
          fields.n: count
          fields.first: min(.Payload.After.n)
          fields.last: max(.Payload.After.n)
          fields.read: min(.Metadata["opencdc.readAt"])
`

// decodedToFile describes a pipeline from input.log to a file with its name. It decodes lines, and has more processors.
func decodedToFile(dir, id, more string) string {
	return fmt.Sprintf(`  - id: %[2]s
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s/input.log}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %[1]s/%[2]s.jsonl}}
    processors:
      - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}
%[3]s`, dir, id, more)
}

const splitItems = `      - {id: split, plugin: split, settings: {field: .Payload.After.items}}
`

// processedAs describes the pipelines that are killed. Another n changes the settings of processors that keep state or
// hold records.
func processedAs(dir string, n int) string {
	return fmt.Sprintf(processed, dir, 100_000+n) + decodedToFile(dir, "gathered", fmt.Sprintf(gather, 4000-n)) +
		decodedToFile(dir, "split", splitItems) + decodedToFile(dir, "plain", "")
}

var processedPipelines = []string{"cloned", "deduped", "gathered", "split", "plain"}

// TestKillLosesNothingWithProcessors checks that a kill -9 at any moment, also while processors are replaced, loses and
// reorders no record that processors split, filter, hold or remember, and that it repeats only records that were read
// since the last commit, as without processors.
func TestKillLosesNothingWithProcessors(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := t.TempDir()
	process.WritePipelines(t, dir, processedAs(dir, 0))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- feedObjects(feed, filepath.Join(dir, "input.log")) }()
	var outputs []string
	for _, id := range processedPipelines {
		outputs = append(outputs, filepath.Join(dir, id+".jsonl"))
	}
	killed := make([]time.Time, max(3, *kills/4))
	for i := range killed {
		p := process.Start(t, dir)
		p.WaitGrowth(t, outputs...)
		process.WritePipelines(t, dir, processedAs(dir, i+1))
		if i == 0 {
			p.WaitFor(t, "an exchange of processors", func() bool {
				return strings.Contains(p.Log.String(), "pipeline was changed without a restart")
			})
		}
		p.AwaitBytes(t, outputs[rand.IntN(len(outputs))], rand.Int64N(40_000)) // any moment
		p.Kill()
		killed[i] = time.Now()
	}
	p := process.Start(t, dir)
	fed()
	want := <-lines
	p.WaitFor(t, fmt.Sprintf("the last of %d lines", want), func() bool {
		for _, path := range outputs {
			if last := agenttest.LastOutput(t, path); max(agenttest.Number(last, "n"),
				agenttest.Number(last, "last")) < want {
				return false
			}
		}
		return true
	})
	p.Terminate(t)
	checkProcessed(t, dir, want, killed)
}

func checkProcessed(t *testing.T, dir string, want int, killed []time.Time) {
	t.Helper()
	for id, check := range map[string]func(t *testing.T, all []agenttest.Output, want int, seen *sightings){
		"cloned":   checkPieces(3, func(n int) bool { return n%5 == 3 }),
		"split":    checkPieces(2, func(int) bool { return false }),
		"gathered": checkGathered,
		"deduped":  checkInOrder,
		"plain":    checkInOrder,
	} {
		t.Run(id, func(t *testing.T) {
			seen := &sightings{killed: killed, readAt: map[int]time.Time{}}
			check(t, agenttest.OutputsIn(t, filepath.Join(dir, id+".jsonl")), want, seen)
			t.Logf("of %d records %d came again, read at most %v before the kill", want, seen.repeated, seen.oldest)
			if seen.oldest > repeatBound {
				t.Errorf("a record came again that was read %v before the kill, want at most %v", seen.oldest,
					repeatBound)
			}
		})
	}
}

// sightings are the arrived records of a source.
type sightings struct {
	killed   []time.Time
	readAt   map[int]time.Time // by number
	repeated int
	oldest   time.Duration // longest time from reading a repeated record to the kill before its repetition
}

// add records the arrival of a record that was read at the given time in nanoseconds.
func (s *sightings) add(v int, readAt string) {
	before, again := s.readAt[v]
	ns, _ := strconv.ParseInt(readAt, 10, 64)
	s.readAt[v] = time.Unix(0, ns)
	if !again {
		return
	}
	s.repeated++
	if i := slices.IndexFunc(s.killed, before.Before); i >= 0 {
		s.oldest = max(s.oldest, s.killed[i].Sub(before))
	}
}

// feedRate is how many lines feedObjects appends per second.
const feedRate = 2000

// feedObjects appends numbered objects until ctx ends and returns the number of the last one that is not dropped.
func feedObjects(ctx context.Context, path string) int {
	return process.Feed(ctx, path, feedRate/100, func(n int) string {
		return fmt.Sprintf("{\"n\":%d,\"drop\":%t,\"items\":[{\"i\":0},{\"i\":1}]}", n, n%5 == 3)
	})
}

// checkPieces expects the given number of pieces of each record that is not dropped.
func checkPieces(
	each int, dropped func(n int) bool,
) func(t *testing.T, all []agenttest.Output, want int, seen *sightings) {
	return func(t *testing.T, all []agenttest.Output, want int, seen *sightings) {
		pieces, back, last := map[int]map[string]bool{}, 0, 0
		for _, m := range all {
			v, index := agenttest.Number(m, "n"), m.Metadata["clone.index"]+m.Metadata["split.index"]
			if v < last {
				back++
			}
			last = v
			if pieces[v] == nil {
				pieces[v] = map[string]bool{}
			}
			if pieces[v][index] = true; index == "0" {
				seen.add(v, m.Metadata["opencdc.readAt"])
			}
		}
		if back > len(seen.killed) {
			t.Errorf("the order goes back %d times with %d kills", back, len(seen.killed))
		}
		for v := 1; v <= want; v++ {
			if len(pieces[v]) != each && !dropped(v) || dropped(v) && pieces[v] != nil {
				t.Fatalf("of record %d there are the pieces %v", v, pieces[v])
			}
		}
	}
}

func checkGathered(t *testing.T, all []agenttest.Output, want int, seen *sightings) {
	up := 0
	for _, m := range all {
		first, last, n := agenttest.Number(m, "first"), agenttest.Number(m, "last"), agenttest.Number(m, "n")
		if n != last-first+1 || first > up+1 {
			t.Fatalf("%d records from %d to %d after those up to %d", n, first, last, up)
		}
		read, _ := m.Payload.After["read"].(string)
		for v := first; v <= last; v++ {
			seen.add(v, read)
		}
		up = max(up, last)
	}
	if up != want {
		t.Errorf("gathered up to %d of %d", up, want)
	}
}

func checkInOrder(t *testing.T, all []agenttest.Output, want int, seen *sightings) {
	up := 0
	for _, m := range all {
		v := agenttest.Number(m, "n")
		if v > up+1 {
			t.Fatalf("%d follows %d", v, up)
		}
		seen.add(v, m.Metadata["opencdc.readAt"])
		up = max(up, v)
	}
	if up != want {
		t.Errorf("up to %d of %d", up, want)
	}
}
