package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// executable runs an executable for go-plugin, in its own process group, with bounded output. The process ends with the
// agent.
type executable struct {
	path    string
	cmd     *exec.Cmd
	sandbox *sandbox.Policy // nil: not confined
	dir     string          // private directory for its socket; go-plugin creates it

	terminate time.Duration // from SIGTERM to SIGKILL

	serve  func(dir string) (*schemaService, error) // serves schemas in that directory
	served *schemaService                           // set by prepare; stopped when the process ends

	stdout *handshakeLine
	stderr *io.PipeReader
	feed   *io.PipeWriter // writes to stderr

	ended chan struct{} // closed when the process has ended and writes no more
	read  chan struct{} // closed when its output has been read, too
	once  sync.Once     // closes read
	err   error         // reason for the end, set before ended is closed

	mu     sync.Mutex
	id     int  // guarded by mu: process id; 0: not started
	reaped bool // guarded by mu: the id may belong to another process
	killed bool // guarded by mu: Kill was called
}

func newExecutable(path string, env []string, serve func(dir string) (*schemaService, error)) *executable {
	r := &executable{path: path, serve: serve, cmd: exec.Command(path), stdout: newHandshakeLine(),
		ended: make(chan struct{}), read: make(chan struct{})}
	r.stderr, r.feed = io.Pipe()
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = env, r.stdout, r.feed
	r.cmd.SysProcAttr = processAttributes()
	r.cmd.WaitDelay = time.Second // a grandchild may keep the output open
	return r
}

// prepare combines go-plugin's environment for the plugin with the inherited environment.
func (r *executable) prepare(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
	r.cmd.Env, r.dir = append(r.cmd.Env, cmd.Env...), dir
	err := r.serveSchemas()
	if err == nil && r.sandbox != nil {
		err = r.confine()
	}
	if err != nil {
		r.discard()
		return nil, err
	}
	return r, nil
}

// serveSchemas serves schemas to the process and passes it the address.
func (r *executable) serveSchemas() (err error) {
	if r.served, err = r.serve(r.dir); err != nil {
		return err
	}
	r.cmd.Env = append(r.cmd.Env, wire.EnvSchemaTarget+"="+r.served.target(r.sandbox != nil && r.sandbox.Strict))
	return nil
}

// discard removes the files of a process that was not started. go-plugin removes the files of a started process.
func (r *executable) discard() {
	r.served.stop()
	_ = os.RemoveAll(r.dir)
}

// confine applies the policy to the process, and grants it its private directory in addition. If the policy is strict,
// that is its working directory, and the process can write below it only.
func (r *executable) confine() error {
	p := *r.sandbox
	temporary := r.dir
	if p.Dir = r.dir; p.Strict {
		temporary = filepath.Join(r.dir, "tmp")
		if err := os.Mkdir(temporary, 0o700); err != nil {
			return fmt.Errorf("cannot make a directory for temporary files: %w", err)
		}
	}
	p.Write = append(slices.Clone(p.Write), temporary)
	launch, err := sandbox.Command(p, r.path)
	if err != nil {
		return err
	}
	r.cmd.Path, r.cmd.Args = launch.Path, launch.Args
	r.cmd.Env = append(r.cmd.Env, "TMPDIR="+temporary, plugin.EnvUnixSocketDir+"="+temporary)
	return nil
}

// Start starts the process.
func (r *executable) Start(context.Context) error {
	started := make(chan error)
	go r.run(started)
	err := <-started
	if err != nil {
		r.discard()
	}
	return err
}

// run starts the process and waits for its end. Both happen on one thread that lives as long as the process, because
// the kernel kills the process when the thread that started it ends.
func (r *executable) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := Start(r.cmd)
	if err != nil {
		started <- err
		return
	}
	pid := r.cmd.Process.Pid
	r.begin(pid)
	started <- nil
	if endGroup(pid) {
		r.setReaped()
	}
	if r.err = r.cmd.Wait(); r.err == nil {
		r.err = errors.New("exit status 0")
	}
	r.setReaped()
	Ended(pid)
	r.served.stop()
	r.stdout.close()
	_ = r.feed.Close()
	close(r.ended)
}

// begin records the id of the started process. It kills the process if Kill was called in the meantime.
func (r *executable) begin(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id = pid
	if r.killed {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

func (r *executable) setReaped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped = true
}

// Wait waits until the process has ended. It is called after all output was read.
func (r *executable) Wait(context.Context) error {
	<-r.ended
	r.once.Do(func() { close(r.read) })
	return r.err
}

// Kill sends SIGTERM to the process and all its children, and SIGKILL if they do not end.
func (r *executable) Kill(context.Context) error {
	r.signal(syscall.SIGTERM)
	timer := time.NewTimer(r.terminate)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
		r.signal(syscall.SIGKILL)
	}
	return nil
}

// signal sends a signal to the process group.
func (r *executable) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.id != 0 && !r.reaped {
		_ = syscall.Kill(-r.id, s)
	}
}

// Stdout returns the handshake line.
func (r *executable) Stdout() io.ReadCloser { return r.stdout.reader }

// Stderr returns the log output of the process.
func (r *executable) Stderr() io.ReadCloser { return r.stderr }

// Name returns the path of the executable.
func (r *executable) Name() string { return r.path }

// ID returns the process id, or "" if no process was started.
func (r *executable) ID() string {
	if pid := r.pid(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

// Diagnose returns nothing.
func (r *executable) Diagnose(context.Context) string { return "" }

// PluginToHost refuses addresses of other machines.
func (r *executable) PluginToHost(network, address string) (string, string, error) {
	switch {
	case network != "unix" && network != "tcp":
		return "", "", fmt.Errorf("the plugin listens on unknown network %.20q", network)
	case network == "tcp" && !isLocal(address):
		return "", "", fmt.Errorf("the plugin listens at %.100q, which is not a loopback address", address)
	}
	return network, address, nil
}

// HostToPlugin is unused, because the plugin never dials.
func (r *executable) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

func (r *executable) exited() <-chan struct{} { return r.read }

func (r *executable) exitError() error { return r.err }

func (r *executable) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

// whyNotReady explains why there is no connection to the plugin; err is the error of go-plugin.
func (r *executable) whyNotReady(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the plugin did not become ready: %w", context.Cause(ctx))
	}
	return r.stdout.explain(err)
}

// isLocal reports whether the address can belong only to this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip.IsLoopback())
}

// handshakeFields is the number of handshake fields for the host. The next field is a certificate, on which go-plugin
// panics unless it has requested one.
const handshakeFields = 5

// maxHandshake limits the size of the handshake line in bytes.
const maxHandshake = 4 << 10

// handshakeLine passes the first line that a plugin prints to go-plugin if it can be a handshake line, and drops the
// rest of the output.
type handshakeLine struct {
	reader *io.PipeReader
	writer *io.PipeWriter
	buf    []byte // owned by Write
	done   bool   // owned by Write

	mu    sync.Mutex
	first string // guarded by mu: printed text; empty: nothing yet
	valid bool   // guarded by mu: it can be a handshake line
}

func newHandshakeLine() *handshakeLine {
	l := &handshakeLine{}
	l.reader, l.writer = io.Pipe()
	return l
}

// Write accepts all of p.
func (l *handshakeLine) Write(p []byte) (int, error) {
	if l.done {
		return len(p), nil
	}
	l.buf = append(l.buf, p[:min(len(p), maxHandshake)]...)
	line, _, found := strings.Cut(string(l.buf), "\n")
	if found || len(l.buf) >= maxHandshake {
		l.done, l.buf = true, nil
		l.hand(strings.TrimSpace(line))
	}
	return len(p), nil
}

func (l *handshakeLine) hand(line string) {
	fields := strings.Split(line, "|")
	l.mu.Lock()
	l.first, l.valid = line, len(fields) >= handshakeFields
	l.mu.Unlock()
	if len(fields) >= handshakeFields {
		_, _ = io.WriteString(l.writer, strings.Join(fields[:handshakeFields], "|")+"\n")
	}
	l.close()
}

// close ends the output: no line follows.
func (l *handshakeLine) close() { _ = l.writer.Close() }

// ErrNoConnector means that a program printed something other than a handshake line.
var ErrNoConnector = errors.New("the program is not a connector")

// explain returns the reason why there is no connection. It is err if the printed line was valid for go-plugin.
func (l *handshakeLine) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.valid:
		return err
	case l.first != "":
		return fmt.Errorf("%w: it printed %.100q", ErrNoConnector, l.first)
	}
	return errors.New("the program exited before it was ready")
}
