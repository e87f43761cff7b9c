package sqlitefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Lock keeps other processes away from a store. The kernel releases it when the process ends in any way; the file
// remains, and has no meaning by itself.
type Lock struct{ file *os.File }

// LockFile locks the store at path with a file next to it that names this process.
func LockFile(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, Explain(path, err)
	}
	_, missing := os.Lstat(path + ".lock")
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Explain(path, err)
	}
	if missing != nil {
		inherit(f.Name(), path)
	}
	if err := lock(f); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w by %s; stop it first, or set db.sqlite.path of this agent to another file",
				ErrLocked, describe(holder(f)))
		}
		return nil, fmt.Errorf("cannot lock %q: %w", f.Name(), err)
	}
	l := &Lock{f}
	if err := l.write(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		return nil, errors.Join(Explain(path, fmt.Errorf("cannot write %q: %w", f.Name(), err)), l.Release())
	}
	return l, nil
}

// endTime is how long LockFile waits for a killed process to end.
const endTime = 5 * time.Second

// lock locks f. If a process that is ending has the lock, it waits until that process has ended, so that an agent can
// be started right after another one was killed.
func lock(f *os.File) error {
	const pause = 10 * time.Millisecond
	alive := 0 // consecutive looks at a holder that is not ending
	for waited := time.Duration(0); ; waited += pause {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || waited > endTime {
			return err
		}
		if alive++; isEnding(holder(f)) {
			alive = 0
		}
		if alive == 2 { // in between, a killed process can look alive
			return err
		}
		time.Sleep(pause)
	}
}

// holder returns the id of the process that the lock file names, 0 for none.
func holder(f *os.File) int {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return pid
}

func describe(pid int) string {
	if pid == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

func (l *Lock) write(text string) error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(text), 0)
	return err
}

// File returns the locked file.
func (l *Lock) File() *os.File { return l.file }

// Release unlocks the store. It does not remove the file: another process may be waiting to lock that very file.
// Closing alone would not unlock it while a child process has a copy of the descriptor, until it calls exec.
func (l *Lock) Release() error {
	_ = l.write("") // an unlocked file needs no name in it
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
