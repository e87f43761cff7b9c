package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/chaos"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// values are the values that typed sends. JSON cannot represent the first exactly, nor the second at all.
func values() map[string]any {
	return map[string]any{
		"big": int64(9007199254740993), "at": time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC),
		"text": "ä", "yes": true, "half": 0.5, "in": map[string]any{"n": int64(-9007199254740995)},
	}
}

// typed is a source of values of all types.
type typed struct {
	sdk.SourceBase
	n int
}

func (*typed) Parameters() sdk.Parameters { return sdk.Parameters{} }

func (*typed) Configure(context.Context, map[string]string) error { return nil }

func (s *typed) Open(_ context.Context, pos record.Position) error {
	s.n, _ = strconv.Atoi(string(pos))
	return nil
}

func (s *typed) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
	}
	s.n++
	return []record.Record{{Position: record.Position(strconv.Itoa(s.n)), Operation: record.OperationCreate,
		Key: record.Structured(map[string]any{"id": int64(s.n)}), After: record.Structured(values())}}, nil
}

// seen is a destination that writes the Go types of the payloads to a file.
type seen struct {
	sdk.DestinationBase
	file *os.File
	path string
}

func (*seen) Parameters() sdk.Parameters { return sdk.Parameters{"path": {Type: sdk.TypeFile}} }

func (s *seen) Configure(_ context.Context, settings map[string]string) error {
	s.path = settings["path"]
	return nil
}

func (s *seen) Open(context.Context) (err error) {
	s.file, err = os.OpenFile(s.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

func (s *seen) Write(_ context.Context, records []record.Record) (int, error) {
	for i, r := range records {
		after, _ := r.After.Structured()
		if _, err := fmt.Fprintln(s.file, describe(after)); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

// describe describes the values of an object and their types.
func describe(m map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v := m[name]
		if object, ok := v.(map[string]any); ok {
			v = describe(object)
		}
		if at, ok := v.(time.Time); ok {
			v = at.UTC() // the time zone after the transfer is not guaranteed
		}
		parts = append(parts, fmt.Sprintf("%s %T %v", name, v, v))
	}
	return strings.Join(parts, ", ")
}

// Values keep their types between two executables, with and without inspectors.
func TestTypesBetweenExecutables(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "typed", "seen")
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", typedPipeline(dir, "p", "typed", "seen"))
	a.Wait("records", func() bool { return len(agenttest.CompleteLines(a.Path("p.jsonl"))) > 10 })
	var shown []string
	enough := errors.New("enough")
	c := &client.Client{URL: "http://" + a.Address()}
	for _, connector := range []string{"p:src", "p:dst"} {
		n := 0
		err := c.Inspect(t.Context(), connector, nil, func(m client.Message) error {
			if n++; len(m.Result) > 0 {
				shown = append(shown, string(m.Result))
			}
			if n == 20 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Fatalf("cannot inspect %s: %v", connector, err)
		}
	}
	before := len(agenttest.CompleteLines(a.Path("p.jsonl")))
	a.Wait("more records", func() bool { return len(agenttest.CompleteLines(a.Path("p.jsonl"))) > before+10 })
	a.Stop()
	for i, line := range agenttest.CompleteLines(a.Path("p.jsonl")) {
		if line != describe(values()) {
			t.Fatalf("record %d arrived as\n%s, want\n%s", i+1, line, describe(values()))
		}
	}
	for _, message := range shown {
		wantTyped(t, "the inspector", message)
	}
}

// wantTyped checks that the JSON of a record contains the exact values.
func wantTyped(t *testing.T, who, text string) {
	t.Helper()
	for _, want := range []string{`"big":9007199254740993`, `"in":{"n":-9007199254740995}`,
		`"at":"2026-01-02T03:04:05.678901Z"`, `"half":0.5`, `"text":"ä"`, `"yes":true`} {
		if !strings.Contains(text, want) {
			t.Fatalf("%s shows no %s: %s", who, want, text)
		}
	}
	if !json.Valid([]byte(text)) {
		t.Errorf("%s shows %s", who, text)
	}
}

// typedPipeline moves records into a file, or into the log.
func typedPipeline(dir, id, source, destination string) string {
	s := agenttest.Moving(dir, id, source, destination, 200)
	if source == "typed" {
		s = strings.Replace(s, "settings: {rate: 200, format.type: structured, format.options.n: int}", "settings: {}",
			1)
	}
	s = strings.Replace(s, "format.options.n: int", "format.options.n: int, format.options.at: time", 1)
	if strings.HasSuffix(destination, "log") {
		s = strings.Replace(s, fmt.Sprintf(`settings: {path: "%s/%s.jsonl"}`, dir, id), "settings: {}", 1)
	}
	return s
}

func TestTypesIntoBuiltIns(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "typed")
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", typedPipeline(dir, "p", "typed", "builtin:file"))
	a.Save("q.yaml", typedPipeline(dir, "q", "typed", "builtin:log"))
	logged := func() (lines []string) {
		for line := range strings.Lines(a.Log()) {
			if strings.Contains(line, "q:dst") && strings.Contains(line, `"after"`) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	a.Wait("records", func() bool { return len(agenttest.CompleteLines(a.Path("p.jsonl"))) > 10 && len(logged()) > 10 })
	a.Stop()
	for _, line := range agenttest.CompleteLines(a.Path("p.jsonl")) {
		wantTyped(t, "the file", line)
	}
	for _, line := range logged() {
		wantTyped(t, "the log", line)
	}
}

func TestTypesFromBuiltIns(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "seen", "xfile", "xlog")
	a := agenttest.Start(t, dir)
	a.Save("p.yaml", typedPipeline(dir, "p", "builtin:generator", "seen"))
	a.Save("q.yaml", typedPipeline(dir, "q", "builtin:generator", "xfile"))
	a.Save("r.yaml", typedPipeline(dir, "r", "builtin:generator", "xlog"))
	logged := func() (lines []string) {
		for line := range strings.Lines(a.Log()) {
			if strings.Contains(line, "r:dst") && strings.Contains(line, `"after"`) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	a.Wait("records", func() bool {
		return len(agenttest.CompleteLines(a.Path("p.jsonl"))) > 10 &&
			len(agenttest.CompleteLines(a.Path("q.jsonl"))) > 10 &&
			len(logged()) > 10
	})
	a.Stop()
	for _, line := range agenttest.CompleteLines(a.Path("p.jsonl")) {
		if !strings.HasPrefix(line, "at time.Time ") || !strings.Contains(line, ", n int64 ") {
			t.Fatalf("a record arrived as %s", line)
		}
	}
	for _, line := range slices.Concat(agenttest.CompleteLines(a.Path("q.jsonl")), logged()) {
		if !strings.Contains(line, `"after":{"at":"20`) {
			t.Fatalf("a record arrived as %s", line)
		}
	}
}

// A record that repeatedly crashes a plugin affects only its own pipeline: that one retries from its checkpoint, with
// growing delays, and continues when the plugin is fixed.
func TestARecordThatCrashesAPlugin(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "chaos")
	a := agenttest.Start(t, dir)
	save := func(mode string) {
		s := strings.Replace(agenttest.Moving(dir, "p", "chaos", "builtin:file", 1),
			"rate: 1, format.type: structured, format.options.n: int", "mode: "+mode, 1)
		a.Save("p.yaml", s)
	}
	a.Save("other.yaml", agenttest.Generated(dir, "other", 1000, ""))
	a.WaitPhase("other", spec.PhaseRunning, 0)
	save(chaos.Poison)
	delays, last := []time.Duration{}, 0
	a.Wait("it crashed four times", func() bool {
		s := a.State("p")
		if s.Phase == spec.PhaseRecovering && s.Failures > last && s.RetryAt != nil {
			last = s.Failures
			delays = append(delays, s.RetryAt.Sub(s.Since))
			if !strings.Contains(s.Error, "chaos at record 5") {
				t.Errorf("its error is %s", s.Error)
			}
		}
		return last >= 4
	})
	if len(delays) >= 3 && delays[len(delays)-1] < 2*delays[0] {
		t.Errorf("it was tried again after %v", delays)
	}
	before := agenttest.LinesIn(t, a.Path("other.jsonl"))
	a.Wait("the other goes on", func() bool { return agenttest.LinesIn(t, a.Path("other.jsonl")) > before+100 })
	wantUpTo := func(n int) {
		t.Helper()
		at := 0
		for _, got := range agenttest.Numbers(t, a.Path("p.jsonl")) {
			if got > at+1 || got > n {
				t.Fatalf("record %d came after %d", got, at)
			}
			at = max(at, got)
		}
	}
	wantUpTo(4)
	before = agenttest.LinesIn(t, a.Path("p.jsonl"))
	save("none")
	a.WaitPhase("p", spec.PhaseRunning, 0)
	a.Wait("the rest", func() bool { return slices.Contains(agenttest.Numbers(t, a.Path("p.jsonl")), 10) })
	a.Stop()
	wantUpTo(10)
	if after := agenttest.Numbers(t, a.Path("p.jsonl"))[before:]; after[0] != 5 {
		t.Errorf("it went on with record %d", after[0])
	}
}
