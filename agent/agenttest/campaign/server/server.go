// Package server runs real servers for tests: unprivileged, on loopback, in temporary directories, and stopped when the
// test ends, however it ends.
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

// Need returns the path of a program, which it looks up in dirs and then in PATH. If the program is missing, the test
// fails and names the Debian package.
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
	t.Fatalf("%s is not installed: the package %s has it", program, pkg)
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Dir returns a temporary directory owned by the user that runs servers.
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

// credential returns the user nobody if the test runs as root, nil otherwise: other users are unprivileged already.
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

// Run runs a command as an unprivileged user to its end, and fails the test if it fails.
func Run(t testing.TB, dir string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = environment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential()}
	endWithTest(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func environment(dir string) []string {
	return append(os.Environ(), "HOME="+dir, "LC_ALL=C", "TZ=UTC")
}

// Process is a server that can be stopped and restarted at the same address. Path, Args, Dir and Ready are set before
// Start.
type Process struct {
	Path  string
	Args  []string
	Env   []string                        // in addition to the environment of the test
	Dir   string                          // working directory, of Dir
	Ready func(ctx context.Context) error // returns nil when the server answers
	// Graceful is the signal that stops the server gracefully; 0: SIGTERM.
	Graceful syscall.Signal

	mu  sync.Mutex
	now *run         // guarded by mu; nil while it does not run
	log bytes.Buffer // of the last start; now writes it until it ends
}

// run is one run of a server.
type run struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it ended
}

// startTimeout limits the time from a start until the server answers.
const startTimeout = 30 * time.Second

// Launch starts the server, fails the test if that is not possible, and kills it when the test ends.
func (p *Process) Launch(t testing.TB) {
	t.Helper()
	t.Cleanup(p.Kill)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server and returns when it answers. A server that ends at once, for example because remains of a
// kill still exist, is started again.
func (p *Process) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		var now *run
		var err error
		// While another test starts a process, that process may briefly hold a newly written file open.
		wait.Until(ctx, func() bool {
			now, err = p.launch()
			return !errors.Is(err, syscall.ETXTBSY)
		})
		if err != nil {
			return err
		}
		err = p.await(ctx, now.done)
		if err == nil {
			return nil
		}
		p.Kill()
		if ctx.Err() != nil {
			return fmt.Errorf("cannot start %s: %w\n%s", filepath.Base(p.Path), err, p.log.Bytes())
		}
	}
}

func (p *Process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		return nil, errors.New("the server runs already")
	}
	p.log.Reset()
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir, cmd.Env = p.Dir, append(environment(p.Dir), p.Env...)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.WaitDelay = time.Second // its children may hold the pipe open for longer
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Setpgid: true}
	endWithTest(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", p.Path, err)
	}
	now := &run{cmd, make(chan struct{})}
	p.now = now
	go func() { _ = cmd.Wait(); close(now.done) }()
	return now, nil
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

// Stop stops the server gracefully. It does nothing if the server does not run.
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
	now := p.now
	p.now = nil
	p.mu.Unlock()
	if now == nil {
		return
	}
	select {
	case <-now.done: // its id may belong to another process by now
		return
	default:
	}
	if signal == syscall.SIGKILL {
		_ = syscall.Kill(-now.cmd.Process.Pid, signal)
	} else {
		now.signal(signal)
	}
	select {
	case <-now.done:
	case <-time.After(startTimeout):
		_ = syscall.Kill(-now.cmd.Process.Pid, syscall.SIGKILL)
		<-now.done
	}
}

// Pid returns the id of the process; 0 while the server does not run.
func (p *Process) Pid() int {
	if now := p.running(); now != nil {
		return now.cmd.Process.Pid
	}
	return 0
}

// running returns the current run, nil while the server does not run.
func (p *Process) running() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// signal sends a signal to a running server.
func (r *run) signal(s syscall.Signal) {
	if r != nil {
		_ = r.cmd.Process.Signal(s)
	}
}

// ended reports whether the run is nil or has ended.
func (r *run) ended() bool {
	if r == nil {
		return true
	}
	select {
	case <-r.done:
		return true
	default:
		return false
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
