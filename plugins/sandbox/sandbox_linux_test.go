package sandbox_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/conduit-agent/conduit/plugins/sandbox"
	"golang.org/x/sys/unix"
)

// attackVariable makes this test binary try forbidden operations, with these arguments.
const attackVariable = "SANDBOX_TEST_ATTACK"

func TestMain(m *testing.M) {
	sandbox.Launch()
	if arguments := os.Getenv(attackVariable); arguments != "" {
		attack(strings.Split(arguments, "|"))
		return
	}
	os.Exit(m.Run())
}

// The name of the socket that a strictly confined process may connect to, and another name of the same length.
const (
	ownName   = "schema.socket"
	shortName = "another.socke"
)

// attack prints the name of each attempt that succeeds.
func attack(arguments []string) {
	secret, own, other := arguments[0], arguments[1], arguments[2]
	socket := filepath.Join(filepath.Dir(secret), "socket")
	attempts := []struct {
		name string
		try  func() error
	}{
		{"own file", func() error { return os.WriteFile(filepath.Join(own, "tmp", "mine"), []byte("x"), 0o600) }},
		{"file in the working directory", func() error { return os.WriteFile("mine", []byte("x"), 0o600) }},
		{"directory in the working directory", func() error { return os.Mkdir("dir", 0o700) }},
		{"listen", func() error { l, err := net.Listen("unix", filepath.Join(own, "tmp", "s")); closed(l); return err }},
		{"own socket", func() error { return dial("unix", ownName) }},
		{"start a program", func() error { return exec.Command("/bin/true").Run() }},
		{"read a file", func() error { _, err := os.ReadFile(secret); return err }},
		{"read by a link", func() error {
			return errors.Join(os.Symlink(secret, filepath.Join(own, "l")), read(filepath.Join(own, "l")))
		}},
		{"read by hard link", func() error {
			return errors.Join(os.Link(secret, filepath.Join(own, "h")), read(filepath.Join(own, "h")))
		}},
		{"list a directory", func() error { _, err := os.ReadDir(filepath.Dir(secret)); return err }},
		{"read by a program", func() error { return exec.Command("/bin/cat", secret).Run() }},
		{"list processes", func() error { _, err := os.ReadDir("/proc"); return err }},
		{"read of a process", func() error { return read(fmt.Sprintf("/proc/%d/cmdline", os.Getppid())) }},
		{"environment of a process", func() error { return read(fmt.Sprintf("/proc/%d/environ", os.Getppid())) }},
		{"signal", func() error { return syscall.Kill(os.Getppid(), 0) }},
		{"trace", func() error { return seize(os.Getppid()) }},
		{"other port", func() error { return dial("tcp4", "127.0.0.1:"+other) }},
		{"ipv6", func() error { _, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0); return err }},
		{"udp", func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0); return err }},
		{"multipath tcp", func() error {
			_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
			return err
		}},
		{"netlink", func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err }},
		{"listen on tcp", func() error { l, err := net.Listen("tcp4", "127.0.0.1:0"); closed(l); return err }},
		{"unix socket", func() error { return dial("unix", socket) }},
		{"unix socket by a link", func() error {
			return errors.Join(os.Symlink(socket, shortName), dial("unix", shortName))
		}},
		{"unix socket by hard link", func() error {
			return errors.Join(os.Link(socket, "h"+shortName[1:]), dial("unix", "h"+shortName[1:]))
		}},
		{"unix socket by renaming", func() error {
			return errors.Join(os.Rename(socket, "r"+shortName[1:]), dial("unix", "r"+shortName[1:]))
		}},
		{"unix datagram", func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0); return err }},
		{"change directory", func() error { return os.Chdir("/") }},
		{"path descriptor", func() error { _, err := unix.Open("/", unix.O_PATH, 0); return err }},
		{"fast open", func() error { return fastOpen(other) }},
		{"io_uring", func() error {
			_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
			return notInvalid(errno)
		}},
		{"read the limit of locks", func() error { return unix.Getrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{}) }},
		{"limit of locks", func() error {
			return unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: 7, Max: 7}, nil)
		}},
		{"limit of locks as before", func() error {
			_, _, errno := unix.Syscall(unix.SYS_SETRLIMIT, unix.RLIMIT_LOCKS,
				uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 6, Max: 6})), 0)
			return notZero(errno)
		}},
		{"another limit", func() error {
			var l unix.Rlimit
			return errors.Join(unix.Getrlimit(unix.RLIMIT_CORE, &l), unix.Setrlimit(unix.RLIMIT_CORE, &l))
		}},
		{"user namespace", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"cloned namespace", func() error { return cloned() }},
		{"write a file", func() error { return os.WriteFile(secret, nil, 0o600) }},
		{"truncate a file", func() error { return os.Truncate(secret, 0) }},
		{"remove a file", func() error { return os.Remove(secret) }},
	}
	var done []string
	for _, attempt := range attempts {
		if attempt.try() == nil {
			done = append(done, attempt.name)
		}
	}
	slices.Sort(done)
	fmt.Println(strings.Join(done, ", "))
}

func closed(l net.Listener) {
	if l != nil {
		_ = l.Close()
	}
}

func read(path string) error { _, err := os.ReadFile(path); return err }

func dial(network, address string) error {
	conn, err := net.Dial(network, address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// seize traces a process without stopping it.
func seize(pid int) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func notZero(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// notInvalid treats an error about invalid arguments as success: the system call was permitted.
func notInvalid(errno syscall.Errno) error {
	if errno == unix.EPERM || errno == unix.ENOSYS {
		return errno
	}
	return nil
}

func fastOpen(port string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	n, _ := strconv.Atoi(port)
	return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}})
}

func cloned() error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER}
	return cmd.Run()
}

// unsupported reports whether the kernel has no Landlock, and then checks that nothing starts under the policy.
func unsupported(t *testing.T, p sandbox.Policy) bool {
	t.Helper()
	if sandbox.Version() > 0 {
		return false
	}
	p.Dir = t.TempDir()
	started := filepath.Join(p.Dir, "started")
	program := filepath.Join(p.Dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho > "+started+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.Write = []string{p.Dir}
	cmd, err := sandbox.Command(p, program)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 126 || !strings.Contains(string(out), "does not support Landlock") {
		t.Errorf("it ended with %v: %s", err, out)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the program was started without a sandbox")
	}
	return true
}

// confined runs attack under the policy and returns the successful attempts. It adds a directory for writing to p.
func confined(t *testing.T, p sandbox.Policy, run func(*exec.Cmd)) []string {
	t.Helper()
	home, own := t.TempDir(), t.TempDir()
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	other := serve("tcp4", "127.0.0.1:0")
	serve("unix", filepath.Join(home, "socket"))
	serve("unix", filepath.Join(own, ownName))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	temporary := filepath.Join(own, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	if p.Write, p.Dir = append(p.Write, own), own; p.Strict {
		p.Write = []string{temporary}
	}
	cmd, err := sandbox.Command(p, exe)
	if err != nil {
		t.Fatal(err)
	}
	run(cmd)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d", attackVariable, secret, own,
		other.Addr().(*net.TCPAddr).Port))
	cmd.Dir, cmd.Stderr = own, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(secret); err != nil && !errors.Is(err, fs.ErrNotExist) || string(b) != "secret" &&
		p.Dir != "" && len(p.Read) == 0 {
		t.Errorf("the file holds %q, %v", b, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), ", ")
}

// A hostile connector has no access beyond its grants.
func TestStrict(t *testing.T) {
	if unsupported(t, sandbox.Policy{Strict: true}) {
		return
	}
	got := confined(t, sandbox.Policy{Strict: true}, func(*exec.Cmd) {})
	want := []string{"another limit", "listen", "own file", "own socket", "read the limit of locks", "start a program"}
	if sandbox.Version() < 6 {
		got = slices.DeleteFunc(got, func(s string) bool { return s == "signal" }) // to a process of the same user
	}
	if !slices.Equal(got, want) {
		t.Errorf("it could: %q, want %q", got, want)
	}
}

// With paths the network is free, and the files of others are out of reach.
func TestPaths(t *testing.T) {
	if unsupported(t, sandbox.Policy{}) {
		return
	}
	got := confined(t, sandbox.Policy{}, func(*exec.Cmd) {})
	for _, forbidden := range []string{"read a file", "read by a link", "read by hard link", "list a directory",
		"write a file", "remove a file", "read by a program",
		"list processes", "read of a process", "environment of a process", "trace", "io_uring", "limit of locks",
		"limit of locks as before", "user namespace", "cloned namespace"} {
		if slices.Contains(got, forbidden) {
			t.Errorf("it could %s", forbidden)
		}
	}
	for _, allowed := range []string{"own file", "file in the working directory", "listen", "other port", "udp", "listen on tcp", "start a program",
		"another limit", "read the limit of locks"} {
		if !slices.Contains(got, allowed) {
			t.Errorf("it could not do: %s", allowed)
		}
	}
}

// The attempts are effective: without a sandbox those that need no privileges succeed.
func TestWithoutSandbox(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got := confined(t, sandbox.Policy{Read: []string{"/"}}, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = exe, []string{exe}
	})
	for _, possible := range []string{"own file", "read by a link", "list processes", "read of a process", "signal",
		"other port", "udp", "listen on tcp", "own socket", "unix socket", "unix socket by a link", "unix datagram",
		"change directory", "path descriptor", "limit of locks", "limit of locks as before"} {
		if !slices.Contains(got, possible) {
			t.Errorf("without a sandbox it could not: %s (only %q)", possible, got)
		}
	}
}
