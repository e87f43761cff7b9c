package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

// children are the functions that the test binary runs when it starts itself again.
var children = map[string]func(path string) error{"open": openOnce, "commit": commitForEver, "fail": failToWrite}

func TestMain(m *testing.M) {
	if run, ok := children[os.Getenv("STORE_TEST_CHILD")]; ok {
		if err := run(os.Getenv("STORE_TEST_PATH")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_CHILD="+name, "STORE_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func openOnce(path string) error {
	db, err := store.Open(context.Background(), path)
	if err != nil {
		return err
	}
	return db.Close()
}

// commitForEver saves ever growing positions and prints each number after its commit.
func commitForEver(path string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	epoch, err := db.BeginRun(ctx, "p")
	for seq := int64(1); err == nil; seq++ {
		if err = db.SaveCheckpoints(ctx,
			[]spec.Checkpoint{position("p:a", epoch, seq), position("p:b", epoch, seq)}); err == nil {
			fmt.Println(seq)
		}
	}
	return err
}

func TestKillLosesNothingCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conduit.db")
	for cycle := range 20 {
		committed := killAfter(t, path, 1+cycle*3)
		db := open(t, path)
		for _, id := range []string{"p:a", "p:b"} {
			pos, err := positionOf(db, id)
			must(t, err)
			saved, err := strconv.Atoi(strings.TrimPrefix(string(pos), "pos-"))
			if err != nil || saved < committed {
				t.Fatalf("cycle %d: %s is at %q, but %d was committed", cycle, id, pos, committed)
			}
		}
		must(t, db.Close())
	}
}

// killAfter kills a committing child once it has reported n commits, and returns the last reported number.
func killAfter(t *testing.T, path string, n int) (last int) {
	t.Helper()
	cmd := child(t, "commit", path)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatalf("child says %q", lines.Text())
		}
		if last == n {
			must(t, cmd.Process.Kill())
		}
	}
	cmd.Wait()
	if last < n {
		t.Fatalf("child ended after %d commits", last)
	}
	return last
}

// TestLockOfAnEndingProcess locks a store whose lock another process has: a process that is ending releases it soon,
// and is waited for; any other process is not.
func TestLockOfAnEndingProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux tells whether a process is ending")
		return
	}
	path := filepath.Join(t.TempDir(), "conduit.db")
	gone := child(t, "open", path+"1")
	must(t, gone.Run())
	killed := child(t, "commit", path+"2")
	must(t, killed.Start())
	must(t, killed.Process.Kill())
	t.Cleanup(func() { _ = killed.Wait() }) // until then, it is a zombie
	const pause = 10 * time.Millisecond
	for _, holder := range []struct {
		name     string
		pid      int
		releases bool
		least    time.Duration // for which LockFile waits
		most     time.Duration
	}{
		{"a process that is gone", gone.Process.Pid, true, 3 * pause, 4 * pause},
		{"a killed process", killed.Process.Pid, true, 3 * pause, 4 * pause},
		{"a killed process that does not end", killed.Process.Pid, false, 5 * time.Second, 6 * time.Second},
		{"a process that runs", os.Getpid(), false, pause, pause},
		{"an unknown process", 0, false, pause, pause},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, err := os.Create(path + ".lock")
			must(t, err)
			defer f.Close()
			must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
			if holder.pid > 0 {
				fmt.Fprintln(f, holder.pid)
			}
			began, ended := time.Now(), make(chan error, 1)
			go func() {
				lock, err := sqlitefile.LockFile(path)
				if err == nil {
					err = lock.Release()
				}
				ended <- err
			}()
			synctest.Wait() // it has tried once
			if holder.releases {
				time.Sleep(3 * pause)
				must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
			}
			err = <-ended
			if waited := time.Since(began); waited < holder.least || waited > holder.most ||
				(err == nil) != holder.releases || err != nil && !errors.Is(err, store.ErrLocked) {
				t.Errorf("%s: %v after %v", holder.name, err, waited)
			}
		})
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conduit.db")
	db := open(t, path)
	out, err := child(t, "open", path).Output()
	if err == nil {
		t.Fatal("a second process opened the store")
	}
	if want := fmt.Sprintf("in use by process %d", os.Getpid()); !strings.Contains(string(out), want) ||
		!strings.Contains(string(out), "db.sqlite.path") {
		t.Errorf("error %q does not say %q and what to do", out, want)
	}
	_, err = store.Open(t.Context(), path)
	wantError(t, err, store.ErrLocked)
	must(t, db.Close())
	open(t, path)
}

// failToWrite makes the kernel refuse to let the log grow, and then allows it again.
func failToWrite(path string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	db, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	if err := db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "before"}}); err != nil {
		return err
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE,
		&syscall.Rlimit{Cur: uint64(info.Size()) + 100, Max: old.Max}); err != nil {
		return err
	}
	pools := db.Pools()
	failed := db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "during", Error: strings.Repeat("x", 10_000)}})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if !errors.Is(failed, store.ErrIO) {
		return fmt.Errorf("writing beyond the limit: %v", failed)
	}
	if err := db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "after"}}); err != nil {
		return err
	}
	states, err := db.States(ctx)
	if err != nil || len(states) != 2 || states[0].PipelineID != "after" || states[1].PipelineID != "before" {
		return fmt.Errorf("states %+v, %v", states, err)
	}
	if db.Pools() == pools {
		return errors.New("the connections that failed are still in use")
	}
	return db.Close()
}

func TestDiskErrorReopens(t *testing.T) {
	if out, err := child(t, "fail", filepath.Join(t.TempDir(), "conduit.db")).Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
