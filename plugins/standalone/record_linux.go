package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/conduit-agent/conduit/plugins/wire"
)

// kept is the list of processes started by connectors, as stored in the file.
type kept struct {
	Where     string         `json:"where"`     // boot and namespace in which the ids are valid
	Processes map[int]string `json:"processes"` // start times, by process id
	Tokens    []string       `json:"tokens"`    // in the environments of the processes
	Marks     []string       `json:"marks"`     // of the agents that started the processes
}

// recorder stores the processes started by connectors in a file, for the next agent.
type recorder struct {
	path   string
	log    *slog.Logger
	old    kept   // list of agents that were killed; empty once their processes have ended
	last   []byte // content of the file
	failed bool   // writing the file failed, which was logged

	interval time.Duration // between two lists of the processes
}

func newRecorder(path string, log *slog.Logger) *recorder {
	return &recorder{path: path, log: log, interval: interval}
}

// begin reads the file, marks this process, and adds the mark to the file before any process has it.
func (r *recorder) begin() {
	content, err := os.ReadFile(r.path)
	if err != nil || json.Unmarshal(content, &r.old) != nil || r.old.Where != where() {
		r.old = kept{}
	}
	m := mark()
	next := r.old
	if m.own != "" && !slices.Contains(next.Marks, m.own) {
		next.Marks = append(slices.Clone(next.Marks), m.own)
	}
	next.Where = where()
	r.replace(next)
	// A process with this process's mark, or with the mark that this process inherited, was not left behind.
	r.old.Marks = slices.DeleteFunc(r.old.Marks, func(s string) bool { return s == m.own || s == m.inherited })
}

// keep stores the current processes. It returns a channel that signals when to call it again.
func (r *recorder) keep() (again <-chan time.Time) {
	if r.path == "" {
		return nil
	}
	started.Lock()
	tokens := maps.Clone(started.tokens)
	started.Unlock()
	if len(tokens) == 0 && r.last == nil {
		return nil
	}
	k := kept{Where: where(), Processes: map[int]string{}, Tokens: slices.Sorted(maps.Values(tokens))}
	if own := mark().own; own != "" {
		k.Marks = []string{own}
	}
	for pid := range tokens {
		k.add(pid)
	}
	for _, pid := range adopted() {
		if k.named(pid) { // the first process of a container also adopts processes of others
			k.add(pid)
		}
	}
	r.replace(k)
	if len(tokens) == 0 {
		return nil
	}
	return time.After(r.interval)
}

// replace replaces the content of the file. It logs the first of consecutive errors, because keep tries again.
func (r *recorder) replace(k kept) {
	content, err := json.Marshal(k)
	if err == nil && !bytes.Equal(content, r.last) {
		err = r.write(content)
	}
	if err == nil {
		r.last, r.failed = content, false
		return
	}
	if !r.failed {
		r.failed = true
		r.log.Warn("cannot record the connector processes: if the agent is killed, the next agent "+
			"may not terminate them",
			"component", "plugins", "path", r.path, "err", err)
	}
}

// write replaces the file atomically.
func (r *recorder) write(content []byte) error {
	if err := os.WriteFile(r.path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(r.path+".new", r.path)
}

// finish removes the file when no connector runs.
func (r *recorder) finish() {
	started.Lock()
	defer started.Unlock()
	if r.path == "" {
		return
	}
	if started.recorder = r; len(started.tokens) == 0 {
		r.remove()
	}
}

// remove removes the file.
func (r *recorder) remove() {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("cannot remove the record of the connector processes", "component", "plugins",
			"path", r.path, "err", err)
	}
}

// add adds a process and all its descendants.
func (k *kept) add(pid int) {
	began := stat(pid).began
	if _, known := k.Processes[pid]; known || began == "" {
		return
	}
	k.Processes[pid] = began
	for _, child := range childrenOf(strconv.Itoa(pid)) {
		k.add(child)
	}
}

// clear ends the remaining processes in the file, their descendants, and the processes with a token or a mark in it.
func (r *recorder) clear(ctx context.Context) {
	if r.old.Where != "" {
		r.old.endAll(ctx)
	}
	r.old = kept{}
}

// Rounds of ending processes until none remains, and the pause between rounds. Processes may start others in the
// meantime.
const (
	rounds = 500
	pause  = 10 * time.Millisecond
)

func (k *kept) endAll(ctx context.Context) {
	for range rounds {
		left := k.left()
		for _, pid := range left {
			k.end(pid)
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// left returns the remaining processes of this user, without zombies.
func (k *kept) left() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if s := stat(pid); s.began != "" && s.state != "Z" && s.state != "X" && (k.has(pid, s) || k.marked(pid)) &&
			unix.Kill(pid, 0) == nil {
			all = append(all, pid)
		}
	}
	return all
}

// has reports whether the process is in k, or was started by a process in k since then, as its child or in its session.
func (k *kept) has(pid int, s processStatus) bool {
	if began, known := k.Processes[pid]; known {
		return began == s.began
	}
	return k.includes(s.parent) || k.includes(s.session)
}

// includes reports whether pid is the id of a process in k. The kernel does not reuse the id of an ended process while
// its session has members.
func (k *kept) includes(pid int) bool {
	began, known := k.Processes[pid]
	if !known {
		return false
	}
	now := stat(pid).began
	return now == began || now == ""
}

// marked reports whether the process has one of the marks or tokens.
func (k *kept) marked(pid int) bool { return carries(pid, k.Marks) || k.named(pid) }

// named reports whether the process has one of the tokens in its environment.
func (k *kept) named(pid int) bool {
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if token, ok := bytes.CutPrefix(variable, []byte(wire.EnvToken+"=")); ok &&
			slices.Contains(k.Tokens, string(token)) {
			return true
		}
	}
	return false
}

// end ends the process if its id was not reused. It adds the process to k, so that the descendants are found.
func (k *kept) end(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if s := stat(pid); k.has(pid, s) || k.marked(pid) {
		k.Processes[pid] = s.began
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// processStatus is the status of a process from /proc.
type processStatus struct {
	state           string
	parent, session int
	began           string // clock ticks since boot; "" if there is no such process
	environEnd      string // address of the end of the environment; "0": no environment yet, or not readable
}

// stat reads /proc/PID/stat. The program name in it may contain any characters.
func stat(pid int) (s processStatus) {
	content, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	const state, parent, session, began, environEnd = 0, 1, 3, 19, 48
	if len(fields) <= environEnd {
		return s
	}
	s.state, s.began, s.environEnd = fields[state], fields[began], fields[environEnd]
	s.parent, _ = strconv.Atoi(fields[parent])
	s.session, _ = strconv.Atoi(fields[session])
	return s
}

// where identifies the boot of the machine, and the namespace of process ids, for example of a container.
func where() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(id)) + " " + namespace
}

// childrenOf returns the children of a process.
func childrenOf(process string) (children []int) {
	lists, _ := filepath.Glob("/proc/" + process + "/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list) // the thread may have ended
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil {
				children = append(children, pid)
			}
		}
	}
	return children
}
