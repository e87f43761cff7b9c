package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/agent/process"
)

// isolatedVariable makes this test binary a process that isolates itself, reports the isolation, including whether a
// child process inherits a descriptor, and waits until its input ends.
const isolatedVariable = "PROCESS_TEST_ISOLATED"

func TestMain(m *testing.M) {
	if os.Getenv(isolatedVariable) == "" {
		os.Exit(m.Run())
	}
	if err := process.Isolate(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out, err := exec.Command("/bin/sh", "-c", "cat <&3 2>/dev/null && echo passed on || echo closed").Output()
	if err != nil {
		fmt.Println(err)
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	var adopts int32
	if err == nil {
		_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&adopts)), 0)
		if errno != 0 {
			err = errno
		}
	}
	fmt.Println(strings.TrimSpace(string(out)), dumpable, adopts, err)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// The descriptors, memory and environment of the agent stay private.
func TestIsolate(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	cmd := exec.Command(exe)
	cmd.Env, cmd.ExtraFiles = []string{isolatedVariable + "=1", "PATH=" + os.Getenv("PATH")}, []*os.File{secret}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	n, _ := stdout.Read(line)
	if got := strings.TrimSpace(string(line[:n])); got != "closed 0 1 <nil>" {
		t.Errorf("descriptor, dumpable, subreaper, error: %q", got)
	}
	if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)); os.Geteuid() != 0 && err == nil {
		t.Error("its environment can be read")
	}
	_ = stdin.Close()
	_ = cmd.Wait()
}
