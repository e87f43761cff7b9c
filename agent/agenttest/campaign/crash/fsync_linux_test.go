//go:build amd64 || arm64

package crash_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// failSyncs, when set, is a file whose fsyncs all fail in an agent in a separate process, from SIGUSR1 on. The process
// reports this in a file next to it.
const failSyncs = "CONDUIT_TEST_FAIL_SYNCS"

func init() {
	path := os.Getenv(failSyncs)
	if path == "" {
		return
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		<-asked
		result := "failing"
		if err := failSyncsOf(path); err != nil {
			result = err.Error()
		}
		if err := os.WriteFile(path+".syncs", []byte(result), 0o600); err != nil {
			panic(err)
		}
	}()
}

// failSyncsOf makes the kernel fail every fsync of the descriptor of the file at path, from all threads of this
// process, until it ends (seccomp).
func failSyncsOf(path string) error {
	fd, err := descriptorOf(path)
	if err != nil {
		return err
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
	}
	const number, firstArgument = 0, 16
	program := []unix.SockFilter{
		load(number), unless(unix.SYS_FSYNC, 3),
		load(firstArgument), unless(uint32(fd), 1),
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	runtime.LockOSThread() // both calls must run on the same thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("cannot install the filter: %w", errno)
	}
	return nil
}

func descriptorOf(path string) (int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && target == path {
			return strconv.Atoi(e.Name())
		}
	}
	return 0, errors.New("the file is not open")
}

// When an fsync of written records fails, the run fails and the position is not saved: the records are read again, and
// none is lost.
func TestRecordsComeAgainAfterAFailedFsync(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	out := filepath.Join(dir, "p.jsonl")
	file := []byte(agenttest.Generated(dir, "p", 2000, ""))
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, dir, failSyncs+"="+out)
	defer p.Kill()
	p.WaitFor(t, "records are written", func() bool { return len(process.Written(t, out)) >= 500 })
	if err := p.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var result []byte
	p.WaitFor(t, "syncs fail", func() bool { result, _ = os.ReadFile(out + ".syncs"); return len(result) > 0 })
	if string(result) != "failing" {
		t.Fatalf("cannot make syncs fail here: %s", result)
	}
	first, highest := 0, 0 // of the repeated records
	p.WaitFor(t, "records are being read again", func() bool { first, highest = stepBack(t, out); return first > 0 })
	p.Kill()
	for _, want := range []string{"pipeline failed", "input/output error"} {
		if !strings.Contains(p.Log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, p.Log.String())
		}
	}

	before := len(process.Written(t, out))
	p = process.Start(t, dir) // syncs succeed here
	p.WaitFor(t, "the records go on", func() bool { return len(process.Written(t, out)) > before+500 })
	p.Terminate(t)
	times := process.Written(t, out)
	for n := 1; n <= len(times); n++ {
		if times[n] == 0 || n >= first && n <= highest && times[n] == 1 {
			t.Errorf("record %d arrived %d times; those from %d to %d were written and not synced", n, times[n], first,
				highest)
		}
	}
}

// stepBack returns the first number in the file that follows a higher one, and that higher number; 0 if there is none.
func stepBack(t *testing.T, path string) (first, highest int) {
	t.Helper()
	all, _ := agenttest.NumbersOf(t, path)
	for _, n := range all {
		if n <= highest {
			return n, highest
		}
		highest = n
	}
	return 0, 0
}
