package standalone

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/plugins/subprocess"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/spec/notify"
)

// started holds the processes of connectors, to distinguish them from other children of this process.
var started = struct {
	sync.Mutex                // held during a start, so that a process is registered before it is seen
	tokens     map[int]string // guarded by Mutex: by process
	recorder   *recorder      // guarded by Mutex: its file is removed when the last process has ended; nil: none yet
	changed    notify.Signal
}{tokens: map[int]string{}, changed: notify.NewSignal()}

// Start starts a connector's process and registers it until Ended.
func Start(cmd *exec.Cmd) error {
	token := ""
	for _, v := range cmd.Env {
		if value, ok := strings.CutPrefix(v, wire.EnvToken+"="); ok {
			token = value
		}
	}
	started.Lock()
	defer started.Unlock()
	err := cmd.Start()
	if err == nil {
		started.tokens[cmd.Process.Pid] = token
		started.changed.Notify()
	}
	return err
}

// Ended removes a process from the registered ones. The process has ended and was waited for.
func Ended(pid int) {
	started.Lock()
	defer started.Unlock()
	delete(started.tokens, pid)
	if started.recorder != nil && len(started.tokens) == 0 {
		started.recorder.remove() // its processes have ended
	}
	started.changed.Notify()
}

// interval is the time between two lists of the processes of connectors in the file.
const interval = time.Second

// Prepare marks all processes that this process starts from now on, and stores the mark in the file at record before it
// returns, so that the next agent finds them if this one is killed. With an empty path it does nothing. It logs a
// warning if the file cannot be written.
//
// The returned function ends processes that connectors left behind, until ctx ends and then once more: processes that
// left their process group and lost their parent. A process stays while the connector of the token in its environment
// runs. The function does this only in a process that adopts such processes, as child subreaper or as the first process
// of a container. First it ends the processes left behind by earlier, killed agents with the same file.
func Prepare(record string, log *slog.Logger) (end func(ctx context.Context)) {
	return newRecorder(record, log).prepare()
}

func (r *recorder) prepare() (end func(ctx context.Context)) {
	if r.path != "" {
		r.begin()
	}
	return r.end
}

func (r *recorder) end(ctx context.Context) {
	r.clear(ctx)
	var adopts int32
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&adopts)), 0)
	if (errno != 0 || adopts == 0) && os.Getpid() != 1 {
		<-ctx.Done()
		r.finish()
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for {
		end()
		again := r.keep()
		select {
		case <-signals:
		case <-started.changed:
		case <-again:
		case <-ctx.Done():
			end()
			r.finish()
			return
		}
	}
}

func end() {
	started.Lock()
	defer started.Unlock()
	live := map[string]bool{}
	for _, token := range started.tokens {
		live[token] = true
	}
	subprocess.Others(adopted, func(pid int) {
		if _, own := started.tokens[pid]; own {
			return
		}
		if reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); reaped == pid || err != nil {
			return
		}
		if !belongs(pid, live) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // reaped when SIGCHLD arrives
		}
	})
}

// adopted returns the children of this process.
func adopted() []int {
	return childrenOf("self")
}

// belongs reports whether a process has the token of a running connector. A process without a token counts as left
// behind, unless this is the first process of a container, which also adopts unmarked processes of others.
func belongs(pid int, live map[string]bool) bool {
	environ, known := environment(pid)
	if !known {
		return true // until the next scan
	}
	found := false
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if token, ok := bytes.CutPrefix(variable, []byte(wire.EnvToken+"=")); ok {
			if found = true; live[string(token)] {
				return true
			}
		}
	}
	return !found && os.Getpid() == 1 && !carries(pid, []string{mark().own})
}

// environment returns the environment of a process; empty if it may not be read. The environment is unknown for a
// moment while the process executes another program.
func environment(pid int) (environ []byte, known bool) {
	path := "/proc/" + strconv.Itoa(pid) + "/environ"
	environ, err := os.ReadFile(path)
	if err != nil || len(environ) > 0 {
		return environ, true
	}
	if stat(pid).environEnd == "0" {
		return nil, false
	}
	environ, _ = os.ReadFile(path) // it may have executed another program since
	return environ, true
}
