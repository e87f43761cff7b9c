package agent_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
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
