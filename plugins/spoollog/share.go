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

// shared are the logs that this process has open, by canonical directory.
var shared struct {
	sync.Mutex
	logs map[string]*sharedLog
}

type sharedLog struct {
	*Log
	lock  *os.File
	users int
}

// ErrLocked says that another process has the log open.
var ErrLocked = errors.New("the spool is in use by another process")

// Share opens the log in dir, or returns the one that this process has open already. It
// stays open until everyone who got it called release. Nothing is opened or created in a
// directory that check refuses, unless it is nil; it gets the open one, since a link may have
// been put in the place of its name.
func Share(dir string, check func(*os.File) error, log *slog.Logger) (l *Log, release func() error, err error) {
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

// openChecked opens the directory of a log, which it creates if need be, by its canonical name.
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

// check calls f, unless it is nil, with the open directory.
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

// openLocked opens a log, and locks it. The files are closed with it, or when it fails.
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

// lockDir keeps other processes away. The kernel drops the lock when the process dies.
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

// Shared returns the logs that this process has open.
func Shared() []*Log {
	shared.Lock()
	defer shared.Unlock()
	logs := make([]*Log, 0, len(shared.logs))
	for _, s := range shared.logs {
		logs = append(logs, s.Log)
	}
	return logs
}
