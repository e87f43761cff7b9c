package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// oneFile is a store that knows one pipeline file.
type oneFile struct{}

func (oneFile) FileStates(context.Context) ([]spec.FileState, error) {
	return []spec.FileState{{Path: "p.yaml", Hash: "aa"}}, nil
}

func (oneFile) Declarations(context.Context) ([]spec.Declaration, error) { return nil, nil }

// However often status files cannot be written, one line of the log says so, and one that they are written again.
func TestFailuresAreLoggedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log wait.Buffer
		changes := &notify.Broadcast{}
		w := &agent.StatusWriter{Dir: dir, Store: oneFile{}, Changes: changes,
			State: func(string) (spec.State, bool) { return spec.State{}, false },
			Log:   slog.New(slog.NewTextHandler(&log, nil))}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		counts := func(failures, successes int) {
			t.Helper()
			synctest.Wait()
			if f, s := strings.Count(log.String(), "cannot write status files"), strings.Count(log.String(),
				"status files can be written again"); f != failures || s != successes {
				t.Errorf("%d failures and %d successes are logged, want %d and %d:\n%s", f, s, failures, successes,
					log.String())
			}
		}
		for range 3 {
			time.Sleep(5 * time.Second)
			changes.Notify()
		}
		time.Sleep(time.Minute) // retries without a change
		counts(1, 0)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		counts(1, 1)
		if _, err := os.Stat(filepath.Join(dir, "p.yaml.json")); err != nil {
			t.Error(err)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// twoPipelines is a store with two pipeline files.
type twoPipelines struct{}

func (twoPipelines) FileStates(context.Context) ([]spec.FileState, error) {
	return []spec.FileState{{Path: "quick.yaml", Hash: "aa"}, {Path: "slow.yaml", Hash: "bb"}}, nil
}

func (twoPipelines) Declarations(context.Context) (all []spec.Declaration, err error) {
	for _, id := range []string{"quick", "slow"} {
		all = append(all, spec.Declaration{Pipeline: spec.Pipeline{ID: id, Status: spec.StatusRunning}, Generation: 1,
			Owner: spec.Owner{Kind: spec.OwnerFile, Path: id + ".yaml"}})
	}
	return all, nil
}

// While the agent starts, the files of pending pipelines are not written, since most change a moment later.
func TestPendingFilesWaitDuringTheStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	synctest.Test(t, func(t *testing.T) {
		changes := &notify.Broadcast{}
		w := &agent.StatusWriter{Dir: dir, Store: twoPipelines{}, Changes: changes, Log: slog.New(slog.DiscardHandler),
			State: func(id string) (spec.State, bool) {
				if id == "slow" {
					return spec.State{Phase: spec.PhaseStarting}, true
				}
				return spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1,
					LastGood: &spec.LastGood{Generation: 1}}, true
			}}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go w.Run(ctx)
		is := func(after string, want ...bool) {
			t.Helper()
			synctest.Wait()
			for i, name := range []string{"quick.yaml.json", "slow.yaml.json"} {
				if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want[i] {
					t.Errorf("after %s: %s: %v", after, name, err)
				}
			}
		}
		time.Sleep(2 * time.Second)
		changes.Notify()
		time.Sleep(7 * time.Second)
		is("9s", true, false)
		time.Sleep(2 * time.Second) // without a change
		is("11s", true, true)
	})
}

// changing is a store with one pipeline file, whose content differs each time it is read.
type changing struct {
	oneFile
	reads int
}

func (c *changing) FileStates(context.Context) ([]spec.FileState, error) {
	c.reads++
	return []spec.FileState{{Path: "p.yaml", Hash: strconv.Itoa(c.reads)}}, nil
}

// However many changes there are, status files are written at most five times per second. The last state is written.
func TestStatusFilesAreWrittenAtMostFiveTimesPerSecond(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	synctest.Test(t, func(t *testing.T) {
		changes, store := &notify.Broadcast{}, &changing{}
		w := &agent.StatusWriter{Dir: dir, Store: store, Changes: changes, Log: slog.New(slog.DiscardHandler),
			State: func(string) (spec.State, bool) { return spec.State{}, false }}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go w.Run(ctx)
		for range 10_000 {
			time.Sleep(time.Millisecond)
			changes.Notify()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if store.reads < 10 || store.reads > 51 {
			t.Errorf("written %d times in 10 s, want at most 5 times per second", store.reads)
		}
		text, err := os.ReadFile(filepath.Join(dir, "p.yaml.json"))
		if last := fmt.Sprintf("%q", strconv.Itoa(store.reads)); err != nil || !strings.Contains(string(text), last) {
			t.Errorf("want the state with hash %s: %v, %s", last, err, text)
		}
	})
}
