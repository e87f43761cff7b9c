package reconcile_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/reconcile"
)

// TestLoopReadsOnlyWhatChanged wakes the loop often while a pipeline is withdrawn: unchanged states of connectors are
// not read again.
func TestLoopReadsOnlyWhatChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 50 {
			w.declare(pipeline(fmt.Sprint("p", i), "1"))
		}
		w.store.withdraw("p7", false)
		w.wake()
		w.pass(20 * time.Second) // it is stopped, and waits for its clean-up
		w.store.mu.Lock()
		before := w.store.connectorRows
		w.store.mu.Unlock()
		for range 30 {
			w.wake()
		}
		w.store.mu.Lock()
		read := w.store.connectorRows - before
		w.store.mu.Unlock()
		if before == 0 || read > 0 {
			t.Errorf("%d states of connectors were read before and %d in 30 wakes that changed nothing", before, read)
		}
	})
}

// TestLoopRechecksOnceAMinute counts the rechecks of an idle loop.
func TestLoopRechecksOnceAMinute(t *testing.T) {
	inWorld(t, func(w *world) {
		var rechecks atomic.Int64
		w.set = func(l *reconcile.Loop) { l.Rechecked = func() { rechecks.Add(1) } }
		w.start()
		w.declare(pipeline("p", "1"))
		w.pass(10*time.Minute + time.Second)
		if n := rechecks.Load(); n != 10 {
			t.Errorf("%d rechecks in ten minutes", n)
		}
	})
}

// TestLoopSaysWhyItActs runs a pipeline through its life with the log at debug level.
func TestLoopSaysWhyItActs(t *testing.T) {
	inWorld(t, func(w *world) {
		var log wait.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.start()
		w.declare(pipeline("p", "1"))
		w.declare(pipeline("p", "2"))
		w.declare(halted(pipeline("p", "2")))
		w.store.withdraw("p", true)
		w.wake()
		var decisions []string
		for line := range strings.Lines(log.Take()) {
			if _, said, ok := strings.Cut(line, `msg="plan decision" component=reconcile pipeline_id=p `); ok {
				decisions = append(decisions, strings.TrimSpace(said))
			}
		}
		want := []string{
			`action=start reason="generation 1 is declared, but nothing is running"`,
			`action=take-up reason="the declaration changed"`,
			`action=restart reason="generation 2 is declared, but generation 1 is running"`,
			`action=stop reason="the declared status is stopped"`,
			`action=mark-stopped reason="the declared status is stopped"`,
			`action=clean-up reason="the pipeline is being deleted"`,
			`action=delete reason="the pipeline is withdrawn and all its connectors are cleaned up"`,
		}
		if got, want := strings.Join(decisions, "\n"), strings.Join(want, "\n"); got != want {
			t.Errorf("decisions:\n%s\nwant:\n%s", got, want)
		}
	})
}
