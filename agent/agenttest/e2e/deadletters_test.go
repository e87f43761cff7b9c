package e2e_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// The record that stops a pipeline is kept once, however often it stops it.
func TestDeadLetterThatStopsThePipeline(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.log"), "good\nbad one\n")
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, ""))
	w.WaitPhase("p", spec.PhaseDegraded, 0)
	if l := w.DeadLetters(); len(l) != 1 || !l[0].Stopped || l[0].Stage != spec.RefusedByPipelineProcessor ||
		l[0].RefusedBy != "p:check" || l[0].Generation != 1 || !strings.Contains(l[0].Error, "it is bad") {
		t.Fatalf("kept is %+v", l)
	}
	if err := w.API.StartPipeline(t.Context(), "p"); err == nil {
		w.WaitPhase("p", spec.PhaseDegraded, 0)
	}
	w.Wait("it to be refused again", func() bool { l := w.DeadLetters(); return len(l) == 1 && l[0].Times == 2 })
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant))
	w.Wait("it to be settled", func() bool {
		l := w.DeadLetters()
		return len(l) == 1 && !l[0].Stopped && l[0].Generation == 2
	})
	if l, err := w.API.DeadLetter(t.Context(), "p", "1"); err != nil || len(l.Refusals) != 3 ||
		!strings.Contains(string(l.Record), `"after":"bad one"`) {
		t.Errorf("it is %+v, %v", l, err)
	}
}

// replay starts the requested replay and returns its final status.
func (w *web) replay(request spec.ReplayRequest) (status spec.Replay) {
	w.T.Helper()
	status, err := w.API.ReplayDeadLetters(w.T.Context(), "p", request)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Wait("the replay to end", func() bool {
		if status, err = w.API.Replay(w.T.Context(), "p"); err != nil {
			w.T.Fatal(err)
		}
		return !status.Running
	})
	return status
}

// Records that the corrected pipeline accepts are settled, in order; records that it refuses again keep both errors.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.log"), "bad 1\ngood\nbad 2\nbad worse 3\nbad 4\n")
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	w.Wait("four dead letters", func() bool { return len(w.DeadLetters()) == 4 })
	if s := w.replay(spec.ReplayRequest{All: true}); s.Read != 4 || s.Settled != 0 || s.Refused != 4 || s.Error != "" {
		t.Errorf("through the same version: %+v", s)
	}
	w.Save("p.yaml", agenttest.Picky(w.Dir, `{{ contains "worse" (printf "%s" .Payload.After) }}`, agenttest.Tolerant))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	if s := w.replay(spec.ReplayRequest{All: true}); s.Read != 4 || s.Settled != 3 || s.Refused != 1 || s.Error != "" ||
		s.Generation != 2 {
		t.Errorf("through the corrected one: %+v", s)
	}
	want := []string{"good", "bad 1", "bad 2", "bad 4"}
	if got := agenttest.Payloads(t, w.Path("out.jsonl")); !slices.Equal(got, want) {
		t.Errorf("written is %q, want %q", got, want)
	}
	left := w.DeadLetters()
	if len(left) != 1 || left[0].ID != 3 || left[0].Times != 3 {
		t.Fatalf("left are %+v", left)
	}
	l, err := w.API.DeadLetter(t.Context(), "p", "3")
	if err != nil || len(l.Refusals) != 3 || l.Refusals[0].Replay || !l.Refusals[2].Replay ||
		l.Refusals[2].Generation != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	edited := strings.Replace(string(l.Record), "bad worse 3", "fine 3", 1)
	if _, err := w.API.EditDeadLetter(t.Context(), "p", "3", json.RawMessage(edited)); err != nil {
		t.Fatal(err)
	}
	if s := w.replay(spec.ReplayRequest{IDs: []int64{3}}); s.Settled != 1 {
		t.Errorf("edited: %+v", s)
	}
	if got := agenttest.Payloads(t, w.Path("out.jsonl")); len(got) != 5 || got[4] != "fine 3" ||
		len(w.DeadLetters()) != 0 {
		t.Errorf("written is %q, left are %v", got, w.DeadLetters())
	}
}

// A replayed dead letter enters at the place that refused it: neither the processors before nor the destinations that
// have it receive it again. The same holds while the pipeline is stopped.
func TestReplayEntersWhereItWasRefused(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	pipeline := func(status, condition string) string {
		add := func(id, text string) string {
			return fmt.Sprintf(`{id: %s, plugin: field.set, settings: {field: .Payload.After, value: '{{ printf `+
				`"%%s" .Payload.After }}%s'}}`, id, text)
		}
		refuse := func(id, where string) string {
			return fmt.Sprintf(`{id: %s, plugin: error, condition: '{{ and (%s) (contains "bad-%s" (printf "%%s" `+
				`.Payload.After)) }}', settings: {message: bad for %[1]s}}`, id, condition, where)
		}
		return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: %[2]s
    connectors:
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/in.log}
        processors: [%[3]s, %[4]s, %[5]s]
      - id: one
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/one.jsonl}
        processors: [%[6]s, %[7]s, %[8]s]
      - id: two
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/two.jsonl}
    processors: [%[9]s, %[10]s, %[11]s]
    dead-letter-queue: {window-size: 0}
`, w.Dir, status,
			add("s0", "-s0"), refuse("s1", "source"), add("s2", "-s2"),
			add("d0", "-d0"), refuse("d1", "one"), add("d2", "-d2"),
			add("p0", "-p0"), refuse("p1", "pipeline"), add("p2", "-p2"))
	}
	agenttest.AppendTo(t, w.Path("in.log"), "bad-source\nbad-pipeline\nbad-one\ngood\n")
	w.Save("p.yaml", pipeline("running", "true"))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	w.Wait("three dead letters", func() bool { return len(w.DeadLetters()) == 3 })
	w.Wait("what is good", func() bool {
		return len(agenttest.Payloads(t, w.Path("two.jsonl"))) == 2 &&
			len(agenttest.Payloads(t, w.Path("one.jsonl"))) == 1
	})
	w.Save("p.yaml", pipeline("stopped", "false"))
	w.WaitPhase("p", spec.PhaseStopped, 0)
	if s := w.replay(spec.ReplayRequest{All: true}); s.Settled != 3 {
		t.Fatalf("%+v", s)
	}
	all := "-s0-s2-p0-p2"
	want := []string{"good" + all + "-d0-d2", "bad-source" + all + "-d0-d2", "bad-pipeline" + all + "-d0-d2",
		"bad-one" + all + "-d0-d2"}
	if got := agenttest.Payloads(t, w.Path("one.jsonl")); !slices.Equal(got, want) {
		t.Errorf("one has %q, want %q", got, want)
	}
	want = []string{"bad-one" + all, "good" + all, "bad-source" + all, "bad-pipeline" + all}
	if got := agenttest.Payloads(t, w.Path("two.jsonl")); !slices.Equal(got, want) {
		t.Errorf("two has %q, want %q", got, want)
	}
}

// A dead letter of every stage can pass all processors of the changed pipeline again, as it was read. A destination
// that has the record does not receive it again.
func TestReplayFromTheFirstProcessor(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	add := func(id, text string) string {
		return fmt.Sprintf(`{id: %s, plugin: field.set, settings: {field: .Payload.After, value: '{{ printf `+
			`"%%s" .Payload.After }}%s'}}`, id, text)
	}
	pipeline := func(version int, refused string) string {
		refuse := func(id, where string) string {
			return fmt.Sprintf(`{id: %s, plugin: error, condition: '{{ contains "%s" (printf "%%s" .Payload.After) }}',
			  settings: {message: no}}`, id, strings.ReplaceAll(refused, "WHERE", where))
		}
		s, p, d := fmt.Sprintf("-s%d", version), fmt.Sprintf("-p%d", version), fmt.Sprintf("-d%d", version)
		return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/in.log}
        processors: [%[2]s, %[3]s]
      - id: one
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/one.jsonl%[8]s}
        processors: [%[6]s, %[7]s]
      - {id: two, type: destination, plugin: builtin:file, settings: {path: %[1]s/two.jsonl}}
    processors: [%[4]s, %[5]s]
    dead-letter-queue: {window-size: 0, keep-original: true}
`, w.Dir, add("s"+s, s), refuse("s", "source"), add("p"+p, p), refuse("p", "pipeline"), add("d"+d, d),
			refuse("d", "one"),
			map[int]string{1: `, sdk.record.format: template, sdk.record.format.options: '{{ if contains "written" ` +
				`(printf "%s" .Payload.After) }}{{ fail "no" }}{{ end }}{{ toJson . }}'`}[version])
	}
	agenttest.AppendTo(t, w.Path("in.log"), "bad-source\nbad-pipeline\nbad-one\nbad-written\n")
	w.Save("p.yaml", pipeline(1, "bad-WHERE"))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	w.Wait("four dead letters", func() bool { return len(w.DeadLetters()) == 4 })
	stages := map[spec.DeadLetterStage]bool{}
	for _, l := range w.DeadLetters() {
		stages[l.Stage] = true
		one, err := w.API.DeadLetter(t.Context(), "p", fmt.Sprint(l.ID))
		if err != nil || !strings.Contains(string(one.Record), "-s1") || strings.Contains(string(one.Original), "-s1") {
			t.Errorf("record %s, as read %s (%v)", one.Record, one.Original, err)
		}
	}
	if len(stages) != 4 {
		t.Errorf("refused at %v", stages)
	}
	for _, from := range []spec.ReplayFrom{spec.ReplayFromFirst, spec.ReplayFromRefused} { // both keep the original
		if s := w.replay(spec.ReplayRequest{All: true, From: from}); s.Refused != 4 || s.Settled != 0 || s.Error != "" {
			t.Fatalf("from %s through the same version: %+v", from, s)
		}
	}
	w.Save("p.yaml", pipeline(2, "nothing"))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	if s := w.replay(spec.ReplayRequest{All: true, From: spec.ReplayFromFirst}); s.Read != 4 || s.Settled != 4 ||
		s.Refused != 0 || s.Error != "" {
		t.Fatalf("%+v", s)
	}
	again := "-s2-p2"
	want := []string{"bad-one" + again + "-d2", "bad-pipeline" + again + "-d2", "bad-source" + again + "-d2",
		"bad-written" + again + "-d2"}
	if got := slices.Sorted(slices.Values(agenttest.Payloads(t, w.Path("one.jsonl")))); !slices.Equal(got, want) {
		t.Errorf("one has %q, want %q", got, want)
	}
	want = []string{"bad-one-s1-p1", "bad-pipeline" + again, "bad-source" + again, "bad-written-s1-p1"}
	if got := slices.Sorted(slices.Values(agenttest.Payloads(t, w.Path("two.jsonl")))); !slices.Equal(got, want) {
		t.Errorf("two has %q, want %q", got, want)
	}
}

// A running pipeline begins to keep records as they are read when its file says so, without a restart.
func TestKeepOriginalIsSwitchedOn(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.log"), "bad 1\n")
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	w.Wait("a dead letter", func() bool { return len(w.DeadLetters()) == 1 })
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad,
		"    dead-letter-queue: {window-size: 0, keep-original: true}\n"))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	agenttest.AppendTo(t, w.Path("in.log"), "bad 2\n")
	w.Wait("another one", func() bool { return len(w.DeadLetters()) == 2 })
	for id, want := range map[string]bool{"1": false, "2": true} {
		l, err := w.API.DeadLetter(t.Context(), "p", id)
		if err != nil || l.Times != 1 || strings.Contains(string(l.Original), `"after":"bad 2"`) != want {
			t.Errorf("dead letter %s: %s (%v)", id, l.Original, err)
		}
	}
}

// A dead letter of a destination that passes all processors again, and no longer goes to this destination, reaches the
// ones to which it goes now. One that still goes there reaches no other.
func TestReplayFromTheFirstProcessorIsRouted(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	text := `(printf "%s" .Payload.After)`
	pipeline := func(a, b, refused string) string {
		return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/in.log}
      - id: a
        type: destination
        plugin: builtin:file
        condition: '{{ contains "%[2]s" %[5]s }}'
        settings: {path: %[1]s/a.jsonl}
        processors:
          - {id: check, plugin: error, condition: '{{ contains "%[4]s" %[5]s }}', settings: {message: no}}
      - id: b
        type: destination
        plugin: builtin:file
        condition: '{{ contains "%[3]s" %[5]s }}'
        settings: {path: %[1]s/b.jsonl}
    dead-letter-queue: {window-size: 0, keep-original: true}
`, w.Dir, a, b, refused, text)
	}
	agenttest.AppendTo(t, w.Path("in.log"), "bad stays\nbad moves\n")
	w.Save("p.yaml", pipeline("bad", "stays", "bad"))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	w.Wait("two dead letters", func() bool { return len(w.DeadLetters()) == 2 })
	w.Wait("the record at b", func() bool { return len(agenttest.Payloads(t, w.Path("b.jsonl"))) == 1 })
	w.Save("p.yaml", pipeline("stays", "bad", "nothing"))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	if s := w.replay(spec.ReplayRequest{All: true, From: spec.ReplayFromFirst}); s.Settled != 2 || s.Error != "" {
		t.Fatalf("%+v", s)
	}
	for name, want := range map[string][]string{"a.jsonl": {"bad stays"}, "b.jsonl": {"bad stays", "bad moves"}} {
		if got := agenttest.Payloads(t, w.Path(name)); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// A record for which a condition of a destination failed gets its destination in a replay. A record that a destination
// refused goes back to that one, whatever its condition is now.
func TestReplayIsRouted(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	text := `(printf "%s" .Payload.After)`
	pipeline := func(condition, refused string) string {
		return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    routing: first
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s/in.log}}
      - id: a
        type: destination
        plugin: builtin:file
        condition: '%[2]s'
        settings: {path: %[1]s/a.jsonl}
      - id: b
        type: destination
        plugin: builtin:file
        default: true
        settings: {path: %[1]s/b.jsonl}
        processors:
          - {id: check, plugin: error, condition: '{{ contains "%[3]s" %[4]s }}', settings: {message: no}}
    dead-letter-queue: {window-size: 0}
`, w.Dir, condition, refused, text)
	}
	agenttest.AppendTo(t, w.Path("in.log"), "to a\nodd a\nto b\nrefused\nodd b\n")
	w.Save("p.yaml", pipeline(`{{ if contains "odd" `+text+` }}maybe{{ else }}{{ contains "a" `+text+` }}{{ end }}`,
		"refused"))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	w.Wait("three dead letters", func() bool { return len(w.DeadLetters()) == 3 })
	by := map[string]spec.DeadLetterStage{}
	for _, l := range w.DeadLetters() {
		by[l.RefusedBy] = l.Stage
	}
	if want := map[string]spec.DeadLetterStage{"p:@routing": spec.RefusedByPipelineProcessor,
		"p:b:check": spec.RefusedByDestinationProcessor}; !maps.Equal(by, want) {
		t.Errorf("refused by %v", by)
	}
	w.Save("p.yaml", pipeline(`{{ or (contains "a" `+text+`) (contains "refused" `+text+`) }}`, "nothing"))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	if s := w.replay(spec.ReplayRequest{All: true}); s.Settled != 3 {
		t.Fatalf("%+v", s)
	}
	for name, want := range map[string][]string{"a.jsonl": {"odd a", "to a"}, "b.jsonl": {"odd b", "refused", "to b"}} {
		if got := agenttest.Payloads(t, w.Path(name)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// A replay into a destination that keeps the ids of written records disturbs neither the pipeline nor its ids.
func TestReplayBesideAPositionTable(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.log"), "one\nbad 2\n")
	file := func(bad string) string {
		return fmt.Sprintf(`version: 2.2
pipelines:
  - id: p
    status: running
    dead-letter-queue: {window-size: 0}
    connectors:
      - {id: in, type: source, plugin: file, settings: {path: %q}}
      - id: out
        type: destination
        plugin: sqlite
        settings:
          path: %q
          table: t
          setup: CREATE TABLE IF NOT EXISTS t (line TEXT)
          positionTable: conduit_positions
    processors:
      - {id: check, plugin: error, condition: '{{ contains %q (printf "%%s" .Payload.After) }}',
         settings: {message: it is bad}}
      - {id: row, plugin: expr.map, settings: {mapping: '.Payload.After = {"line": trim(text(after))}'}}
`, w.Path("in.log"), w.Path("out.db"), bad)
	}
	w.Save("p.yaml", file("bad"))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	db, err := sql.Open("sqlite3", w.Path("out.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows := func() (all string) {
		// there is no table at first
		_ = db.QueryRowContext(t.Context(), "SELECT group_concat(line) FROM t").Scan(&all)
		return all
	}
	w.Wait("a row and a dead letter", func() bool { return len(w.DeadLetters()) == 1 && rows() == "one" })
	w.Save("p.yaml", file("worse"))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	if s := w.replay(spec.ReplayRequest{All: true}); s.Settled != 1 || s.Error != "" {
		t.Errorf("the replay is %+v", s)
	}
	agenttest.AppendTo(t, w.Path("in.log"), "three\nfour\n")
	w.Wait("the other rows", func() bool { return rows() == "one,bad 2,three,four" })
	if n := strings.Count(w.Log(), "UNIQUE constraint"); n > 0 {
		t.Errorf("the pipeline failed %d times:\n%s", n, w.Log())
	}
}
