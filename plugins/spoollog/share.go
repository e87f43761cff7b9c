package spoollog

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// shared holds the open logs of this process, by canonical directory.
var shared struct {
	sync.Mutex
	logs map[string]*sharedLog
}

type sharedLog struct {
	*Log
	lock  *os.File
	users int
}

// ErrLocked means that another process has the log open.
var ErrLocked = errors.New("the spool is in use by another process")

// OpenShared opens the log in dir, or returns it if this process has it open already. The log stays open until every
// caller has called its release. If check is not nil, it is called with the open directory, since a link may have
// replaced the name; if it returns an error, nothing in the directory is opened or created.
func OpenShared(dir string, check func(*os.File) error, log *slog.Logger) (l *Log, release func() error, err error) {
	files, err := openChecked(dir, check)
	if err != nil {
		return nil, nil, err
	}
	dir = files.path
	shared.Lock()
	defer shared.Unlock()
	s := shared.logs[dir]
	if s != nil {
		err = files.Close()
	} else {
		s, err = openLocked(files, log)
	}
	if err != nil {
		return nil, nil, err
	}
	if shared.logs[dir] == nil {
		if shared.logs == nil {
			shared.logs = map[string]*sharedLog{}
		}
		shared.logs[dir] = s
	}
	s.users++
	return s.Log, sync.OnceValue(func() error { return s.release(dir) }), nil
}

// openChecked opens the directory of a log by its canonical name, and creates it if necessary.
func openChecked(dir string, check func(*os.File) error) (files *directory, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot create the directory of the spool: %w", err)
	}
	if dir, err = canonical(dir); err != nil {
		return nil, err
	}
	if files, err = openDirectory(dir); err != nil {
		return nil, fmt.Errorf("cannot open the directory of the spool: %w", err)
	}
	if err := files.check(check); err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return files, nil
}

// check calls f with the open directory, unless f is nil.
func (d *directory) check(f func(*os.File) error) error {
	if f == nil {
		return nil
	}
	dir, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f(dir), dir.Close())
}

func canonical(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the directory of the spool: %w", err)
	}
	return dir, nil
}

// openLocked locks and opens a log. The files are closed with the log, or when openLocked fails.
func openLocked(files *directory, log *slog.Logger) (*sharedLog, error) {
	lock, err := lockDir(files)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	l, err := Open(files.path, Options{FS: files, Log: log})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &sharedLog{Log: l, lock: lock}, nil
}

// lockDir locks the directory against other processes. The kernel releases the lock when the process dies.
func lockDir(files *directory) (*os.File, error) {
	f, err := files.root.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the spool: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s", ErrLocked, files.path)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *sharedLog) release(dir string) error {
	shared.Lock()
	defer shared.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	delete(shared.logs, dir)
	return errors.Join(s.Close(), s.lock.Close())
}

// Shared returns the open logs of this process.
func Shared() []*Log {
	shared.Lock()
	defer shared.Unlock()
	logs := make([]*Log, 0, len(shared.logs))
	for _, s := range shared.logs {
		logs = append(logs, s.Log)
	}
	return logs
}
