// Package server runs real servers for tests: unprivileged, on loopback, in temporary
// directories, and gone when the test ends, however it ends.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Need returns the path of a program, which is sought in dirs and then in PATH. When it is
// missing the test is skipped and says which package has it; where CI is set it fails.
func Need(t testing.TB, program, pkg string, dirs ...string) string {
	t.Helper()
	for _, dir := range dirs {
		if path := filepath.Join(dir, program); isFile(path) {
			return path
		}
	}
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	Missing(t, "%s is not installed: the package %s has it", program, pkg)
	return ""
}

// Missing skips the test for the reason given, or fails it where CI is set.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Dir returns a temporary directory of the user that servers run as.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "conduit-server-") // t.TempDir is too long for a socket, and removed while servers end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if c := credential(); c != nil {
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// credential returns the user nobody for a test that runs as root, nil for any other: that
// is unprivileged already.
func credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := 65534, 65534
	if u, err := user.Lookup("nobody"); err == nil {
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// FreePort returns a TCP port of 127.0.0.1 that was free a moment ago. A server that is to
// come back at the same address needs one of its own choice.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// Run runs a command as an unprivileged user to its end, and fails the test if it fails.
func Run(t testing.TB, dir string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = environment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func environment(dir string) []string {
	return append(os.Environ(), "HOME="+dir, "LC_ALL=C", "TZ=UTC")
}

// Process is a server that can be ended and started again at the same address. Path, Args,
// Dir and Ready are set before Start.
type Process struct {
	Path  string
	Args  []string
	Env   []string                        // in addition to that of the test
	Dir   string                          // working directory, of Dir
	Ready func(ctx context.Context) error // returns nil when the server answers
	// Graceful is the signal after which the server ends by itself; 0: SIGTERM.
	Graceful syscall.Signal

	mu   sync.Mutex
	cmd  *exec.Cmd     // guarded by mu; nil while it does not run
	done chan struct{} // guarded by mu; closed when cmd ended
	log  bytes.Buffer  // of the last start; written by cmd until done
}

// startTimeout bounds how long a server may take until it answers.
const startTimeout = 30 * time.Second

// Launch starts the server, fails the test if that is not possible, and kills it when the
// test ends.
func (p *Process) Launch(t testing.TB) {
	t.Helper()
	t.Cleanup(p.Kill)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server and returns when it answers. One that ends at once, as after a
// kill whose traces are not gone yet, is started again.
func (p *Process) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		var done <-chan struct{}
		var err error
		// A process that another test is just starting holds a file that was just written for a moment.
		wait.Until(ctx, func() bool {
			done, err = p.launch()
			return !errors.Is(err, syscall.ETXTBSY)
		})
		if err != nil {
			return err
		}
		err = p.await(ctx, done)
		if err == nil {
			return nil
		}
		p.Kill()
		if ctx.Err() != nil {
			return fmt.Errorf("cannot start %s: %w\n%s", filepath.Base(p.Path), err, p.log.Bytes())
		}
	}
}

func (p *Process) launch() (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return nil, errors.New("the server runs already")
	}
	p.log.Reset()
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, append(environment(p.Dir), p.Env...)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.WaitDelay = time.Second // its children may hold the pipe for longer
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", p.Path, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() { _ = cmd.Wait(); close(done) }()
	return done, nil
}

// await waits until the server answers or ends.
func (p *Process) await(ctx context.Context, done <-chan struct{}) error {
	const pause = 20 * time.Millisecond
	for {
		err := p.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(pause):
		}
	}
}

// Stop ends the server gracefully. One that does not run stays so.
func (p *Process) Stop() {
	signal := p.Graceful
	if signal == 0 {
		signal = syscall.SIGTERM
	}
	p.end(signal)
}

// Kill ends the server and its process group with SIGKILL.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

func (p *Process) end(signal syscall.Signal) {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.cmd = nil
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	if signal == syscall.SIGKILL {
		_ = syscall.Kill(-cmd.Process.Pid, signal)
	} else {
		_ = cmd.Process.Signal(signal)
	}
	select {
	case <-done:
	case <-time.After(startTimeout):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
	}
}

// greeting connects to addr, sends request, and returns the first n bytes that the server sends.
func greeting(ctx context.Context, addr, request string, n int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, err
	}
	first := make([]byte, n)
	_, err = io.ReadFull(conn, first)
	return first, err
}
