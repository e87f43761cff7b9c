//go:build linux && (amd64 || arm64)

package faults_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/faults"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// The test binary restarts itself as a process that saves into the store in this directory.
const childVariable = "CONDUIT_TEST_SAVE"

func TestMain(m *testing.M) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		if err := faults.Join(); err != nil { // a watched agent
			panic(err)
		}
		process.Serve()
		os.Exit(m.Run())
	}
	if err := saveAll(filepath.Join(dir, "conduit.db")); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// rounds is how often the child saves.
const rounds = 10

// saveAll saves positions and dead letters, retries each until it succeeds, and prints the saved ones.
func saveAll(path string) error {
	if err := faults.Join(); err != nil {
		return err
	}
	var db *store.DB
	var epoch int64
	ctx := context.Background()
	if err := until(func() (err error) { db, err = store.Open(ctx, path); return err }); err != nil {
		return err
	}
	if err := until(func() (err error) { epoch, err = db.BeginRun(ctx, "p"); return err }); err != nil {
		return err
	}
	dead := &deadletter.Store{Path: deadletter.PathOf(path), Log: slog.New(slog.DiscardHandler)}
	for n := int64(1); n <= rounds; n++ {
		if err := until(func() error {
			return dead.Keep(ctx, &spec.Declaration{Pipeline: spec.Pipeline{ID: "p"}}, deadLetter(n))
		}); err != nil {
			return err
		}
		if err := until(func() error { return dead.Flush(ctx) }); err != nil {
			return err
		}
		fmt.Println("dead-letter", n)
		if err := until(func() error {
			return db.SaveCheckpoints(ctx, []spec.Checkpoint{checkpoint(epoch, n)})
		}); err != nil {
			return err
		}
		fmt.Println("position", n)
		// The saved values are read back, also when the file is read-only.
		if c, err := db.Checkpoint(ctx, "p:in"); err == nil && c.Sequence != n {
			return fmt.Errorf("position %d was saved, and %d is read", n, c.Sequence)
		}
		// Large enough for a checkpoint of the log.
		large := []spec.State{{PipelineID: "p", Error: strings.Repeat(strconv.FormatInt(n, 10), 600_000)}}
		if err := until(func() error { return db.SaveStates(ctx, large) }); err != nil {
			return err
		}
	}
	if db.Fault() != nil || dead.Fault() != nil {
		return fmt.Errorf("it says that it fails although it saves: %w", errors.Join(db.Fault(), dead.Fault()))
	}
	fmt.Println("end 0")
	_, _ = dead.Close(), db.Close() // after an error, the logs remain
	return nil
}

// until retries until try succeeds. An error must name a remedy.
func until(try func() error) error {
	for range 1000 {
		err := try()
		if err == nil {
			return nil
		}
		if text := err.Error(); !strings.Contains(text, "saving") && !strings.Contains(text, "conduit store") {
			return fmt.Errorf("the error does not say what to do: %w", err)
		}
	}
	return errors.New("it never recovers")
}

func deadLetter(n int64) *engine.DeadLetter {
	return &engine.DeadLetter{SourceID: "p:in", RefusedBy: "p:out", Entry: "p:out", Err: errors.New("no"),
		Record: record.Record{Position: record.Position(strconv.FormatInt(n, 10)),
			After: record.Raw([]byte(strconv.FormatInt(n, 10)))}}
}

func checkpoint(epoch, n int64) spec.Checkpoint {
	return spec.Checkpoint{ConnectorID: "p:in", PipelineID: "p", Position: record.Position(strconv.FormatInt(n, 10)),
		Epoch: epoch, Sequence: n}
}

// fault is one kind of failure.
type fault struct {
	name  string
	calls string // names of the affected calls
	errno syscall.Errno
	times int // consecutive failures
	kill  bool
	cut   bool // the power is cut some calls later
}

var kinds = []fault{
	{name: "fsync fails once", calls: "fsync", errno: syscall.EIO, times: 1},
	{name: "fsync fails", calls: "fsync", errno: syscall.EIO, times: 4},
	{name: "power cut after fsync failed", calls: "fsync", errno: syscall.EIO, times: 1, cut: true},
	{name: "write fails once", calls: "write", errno: syscall.EIO, times: 1},
	{name: "write fails", calls: "write truncate open", errno: syscall.EIO, times: 12},
	{name: "no space", calls: "write truncate open", errno: syscall.ENOSPC, times: 12},
	{name: "read-only", calls: "write truncate open fsync", errno: syscall.EROFS, times: 12},
	{name: "killed at fsync", calls: "fsync", errno: syscall.EIO, times: 1, kill: true},
	{name: "killed at write", calls: "write truncate open", errno: syscall.EIO, times: 1, kill: true},
}

var tried = flag.Int("places", 1, "places that are tried of each kind of failure; 0 is all of them")

// TestNothingSavedIsLost makes system calls fail, one place at a time, while positions and dead letters are saved.
// Afterwards all saved data exists: for a restarted process, and after a power cut.
func TestNothingSavedIsLost(t *testing.T) {
	for _, f := range kinds {
		t.Run(f.name, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			calls := run(t, f, -1)
			if calls < rounds {
				t.Fatalf("there are only %d calls", calls)
			}
			places := rand.Perm(calls)
			if *tried > 0 {
				places = places[:min(*tried, calls)]
			}
			for _, at := range places {
				run(t, f, at)
			}
			t.Logf("%d of %d calls failed, each in a run of its own", len(places), calls)
		})
	}
}

// prepared returns a directory with a store and a dead-letter store.
func prepared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "conduit.db")
	db, err := store.Open(t.Context(), path)
	if err == nil {
		err = db.Close()
	}
	dead := &deadletter.Store{Path: deadletter.PathOf(path), Log: slog.New(slog.DiscardHandler)}
	if err = errors.Join(err, dead.Keep(t.Context(), &spec.Declaration{Pipeline: spec.Pipeline{ID: "p"}},
		deadLetter(0)), dead.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// child returns the process that saves into the store in dir.
func child(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// run saves with the fault at a place, -1 for nowhere, and returns the number of such calls.
func run(t *testing.T, f fault, at int) (calls int) {
	t.Helper()
	dir := prepared(t)
	path := filepath.Join(dir, "conduit.db")
	cmd := child(t, dir)
	w := faults.Watch(t, cmd, dir)
	left := rand.IntN(40)
	w.Decide(func(c faults.Call) syscall.Errno {
		if f.cut && at >= 0 && calls > at {
			if left--; left < 0 {
				_ = syscall.Kill(c.Thread, syscall.SIGKILL) // kills the whole process
				return syscall.EIO                          // nothing reaches the disk any more
			}
		}
		if !strings.Contains(f.calls, c.Name) || strings.HasSuffix(c.Path, ".lock") ||
			strings.HasSuffix(c.Path, "-shm") {
			return 0
		}
		calls++
		if at < 0 || calls <= at || calls > at+f.times {
			return 0
		}
		if f.kill {
			_ = syscall.Kill(c.Thread, syscall.SIGKILL) // kills the whole process
		}
		return f.errno
	})
	saved := output(t, cmd)
	what := fmt.Sprintf("%s at call %d", f.name, at)
	if _, ended := saved["end"]; !ended && (!f.kill && !f.cut || at < 0) {
		t.Fatalf("%s: the process did not go on: %v", what, saved)
	}
	disk := t.TempDir()
	if err := w.Disk("conduit.db", disk); err != nil {
		t.Fatal(err)
	}
	there(t, what+", started again", path, saved)
	there(t, what+", after a power cut", filepath.Join(disk, "conduit.db"), saved)
	return calls
}

// TestLogIsWrittenAgainAfterAFailedFsync traces the calls after an fsync of the log failed. The kernel treats its pages
// as written, so the whole log must be written and synced again before anything else.
func TestLogIsWrittenAgainAfterAFailedFsync(t *testing.T) {
	load.Parallel(t, load.Agent)
	for _, name := range []string{"conduit.db-wal", "conduit.db.dead-letters-wal"} {
		dir := prepared(t)
		cmd := child(t, dir)
		w := faults.Watch(t, cmd, dir)
		var mu sync.Mutex
		syncs, since := 0, []faults.Call{}
		w.Decide(func(c faults.Call) syscall.Errno {
			mu.Lock()
			defer mu.Unlock()
			if filepath.Base(c.Path) != name {
				return 0
			}
			if c.Name == "fsync" {
				syncs++
			}
			if syncs == 4 && len(since) == 0 {
				since = append(since, c)
				return syscall.EIO
			}
			if len(since) > 0 {
				since = append(since, c)
			}
			return 0
		})
		saved := output(t, cmd)
		mu.Lock()
		defer mu.Unlock()
		if saved["position"] != rounds || len(since) < 4 {
			t.Fatalf("%s: the process ended after %v and %d calls", name, saved, len(since))
		}
		again := since[1:4]
		if again[0].Name != "open" || again[1].Name != "write" || again[1].Size <= 4096 || again[2].Name != "fsync" {
			t.Errorf("%s: after the failed fsync came %+v, not a write of all and an fsync", name, again)
		}
	}
}

// output runs the process and returns the last number that it printed for each word.
func output(t *testing.T, cmd *exec.Cmd) map[string]int64 {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]int64{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Errorf("the process says %q", lines.Text())
			continue
		}
		last[word] = n
	}
	_ = cmd.Wait() // its output tells how it ended
	return last
}

// there checks that the store and the dead-letter store contain all saved data.
func there(t *testing.T, what, path string, saved map[string]int64) {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer db.Close()
	c, err := db.Checkpoint(t.Context(), "p:in")
	if err != nil || saved["position"] > 0 && (c == nil || c.Sequence < saved["position"]) {
		t.Errorf("%s: position %d was saved, there is %+v, %v", what, saved["position"], c, err)
	}
	dead := &deadletter.Store{Path: deadletter.PathOf(path), Log: slog.New(slog.DiscardHandler)}
	defer dead.Close()
	totals, err := dead.Totals(t.Context())
	if err != nil || len(totals) != 1 || totals[0].Count < saved["dead-letter"]+1 {
		t.Errorf("%s: %d dead letters were saved, there are %v, %v", what, saved["dead-letter"]+1, totals, err)
	}
}
