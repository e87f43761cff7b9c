//go:build linux && (amd64 || arm64)

// Package faults intercepts the system calls with which a child process changes or syncs files, by seccomp user
// notification. A test can make each call fail, and can reconstruct the content of the disk after a power cut at that
// call.
package faults

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketVariable names the socket over which a watched process passes its seccomp descriptor.
const socketVariable = "CONDUIT_TEST_FAULTS"

// Watcher decides the results of one process's calls.
type Watcher struct {
	mu     sync.Mutex
	decide func(Call) syscall.Errno
	dir    string
	disk   map[string]*image
	ended  chan struct{}
}

// image is the durable content of a file.
type image struct {
	content []byte
	dirty   [][2]int64 // ranges that were written and not synced
}

// Watch intercepts the calls of the process of cmd on files below dir. cmd must not be started yet, and its process
// must call Join. Until Decide is called, every call proceeds. Watch fails the test if the kernel does not support
// this.
func Watch(t testing.TB, cmd *exec.Cmd, dir string) *Watcher {
	t.Helper()
	var sizes [3]uint16
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0,
		uintptr(unsafe.Pointer(&sizes))); errno != 0 {
		t.Fatalf("the kernel does not ask about calls: %v", errno)
	}
	path := filepath.Join(t.TempDir(), "faults")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, socketVariable+"="+path)
	w := &Watcher{dir: dir, disk: map[string]*image{}, ended: make(chan struct{})}
	if err := w.keep(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		defer l.Close()
		if err := w.serve(l); err != nil {
			t.Errorf("cannot watch the process: %v", err)
		}
	}()
	t.Cleanup(func() { l.Close(); <-w.ended })
	return w
}

// keep records the current content of the files as durable.
func (w *Watcher) keep() error {
	entries, err := os.ReadDir(w.dir)
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(w.dir, e.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w.disk[path] = &image{content: content}
	}
	return err
}

// Decide sets the function that decides each call: its error is the result of the call, and with 0 the call proceeds.
// One goroutine calls f.
func (w *Watcher) Decide(f func(Call) syscall.Errno) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decide = f
}

// Join lets the parent process intercept the calls of this one, if it called Watch. Join returns when the filter is
// installed.
func Join() error {
	path := os.Getenv(socketVariable)
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	defer c.Close()
	listener, err := install()
	answer := "watched"
	var rights []byte
	if err != nil {
		answer = err.Error()
	} else {
		rights = unix.UnixRights(listener)
	}
	// From here on, any write would block until the parent answers, so there is none.
	if _, _, err := c.WriteMsgUnix([]byte(answer), rights, nil); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// install installs the filter in all threads and returns the descriptor for its notifications.
func install() (int, error) {
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for number := range watched {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(number), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW})
	runtime.LockOSThread() // both calls must run on the same thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH |
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return 0, fmt.Errorf("cannot install the filter: %w", errno)
	}
	return int(fd), nil
}

// notification and response are the kernel structures seccomp_notif and seccomp_notif_resp.
type notification struct {
	ID          uint64
	PID, Flags  uint32
	Number      int32
	Arch        uint32
	Instruction uint64
	Args        [6]uint64
}

type response struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// The requests of ioctl(2), from linux/seccomp.h.
const (
	receive  = 0xc0502100
	send     = 0xc0182101
	goOnFlag = 1
)

// serve answers the notifications of the kernel until the process ends.
func (w *Watcher) serve(l *net.UnixListener) error {
	c, err := l.AcceptUnix()
	if errors.Is(err, net.ErrClosed) {
		return nil // the process was never started
	}
	if err != nil {
		return err
	}
	defer c.Close()
	text, rights := make([]byte, 200), make([]byte, 100)
	n, m, _, _, err := c.ReadMsgUnix(text, rights)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("it says %s: %w", text[:n], err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	for {
		// poll(2) reports the end of all processes, which a receive does not.
		poll := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if poll[0].Revents&unix.POLLIN == 0 && poll[0].Revents != 0 {
			return nil
		}
		if poll[0].Revents != 0 {
			w.one(fds[0])
		}
	}
}

// one answers one notification.
func (w *Watcher) one(fd int) {
	var n notification
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), receive, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return // the thread was killed meanwhile
	}
	r := response{ID: n.ID, Flags: goOnFlag}
	if errno := w.answer(&n); errno != 0 {
		r.Flags, r.Error = 0, -int32(errno)
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), send, uintptr(unsafe.Pointer(&r))) // or the thread was killed
}

func (w *Watcher) answer(n *notification) syscall.Errno {
	c, changes := callOf(n)
	if !changes || !strings.HasPrefix(c.Path, w.dir+"/") {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	errno := syscall.Errno(0)
	if w.decide != nil {
		errno = w.decide(c)
	}
	w.note(n, c, errno)
	return errno
}

// note updates the durable content after a call. The kernel treats pages that it failed to write as written.
func (w *Watcher) note(n *notification, c Call, errno syscall.Errno) {
	f := w.disk[c.Path]
	if f == nil {
		f = &image{}
		w.disk[c.Path] = f
	}
	switch c.Name {
	case "write":
		if errno != 0 {
			return
		}
		at := int64(n.Args[3])
		switch n.Number {
		case unix.SYS_WRITE:
			at = offset(n.PID, n.Args[0])
		case unix.SYS_PWRITE64:
		default:
			return // SQLite uses no other call
		}
		f.dirty = append(f.dirty, [2]int64{at, at + int64(n.Args[2])})
	case "truncate":
		if errno == 0 {
			f.truncate(int64(n.Args[1]))
		}
	case "fsync":
		if errno == 0 {
			f.sync(c.Path)
		}
		f.dirty = nil
	}
}

func (f *image) truncate(size int64) {
	for int64(len(f.content)) < size {
		f.content = append(f.content, 0)
	}
	f.content = f.content[:size]
}

func (f *image) sync(path string) {
	now, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for _, r := range f.dirty {
		end := min(r[1], int64(len(now)))
		if end > int64(len(f.content)) {
			f.truncate(end)
		}
		if r[0] < end {
			copy(f.content[r[0]:end], now[r[0]:end])
		}
	}
}

// offset returns the write offset of a descriptor in another process.
func offset(pid uint32, fd uint64) (at int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	if err == nil {
		_, _ = fmt.Sscanf(string(text), "pos:\t%d", &at)
	}
	return at
}

// Disk writes to a directory the durable content of the files whose names begin with prefix, as after a power cut at
// the end of the process.
func (w *Watcher) Disk(prefix, to string) error {
	<-w.ended
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, f := range w.disk {
		if name := filepath.Base(path); strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, "-shm") {
			if _, err := os.Stat(path); err != nil {
				continue // it was removed or renamed
			}
			if err := os.WriteFile(filepath.Join(to, name), f.content, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
