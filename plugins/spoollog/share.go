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
// stays open until everyone who got it called release.
func Share(dir string, log *slog.Logger) (l *Log, release func() error, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, nil, fmt.Errorf("cannot create the directory of the spool: %w", err)
	}
	dir, err = canonical(dir)
	if err != nil {
		return nil, nil, err
	}
	shared.Lock()
	defer shared.Unlock()
	s := shared.logs[dir]
	if s == nil {
		if s, err = openLocked(dir, log); err != nil {
			return nil, nil, err
		}
		if shared.logs == nil {
			shared.logs = map[string]*sharedLog{}
		}
		shared.logs[dir] = s
	}
	s.users++
	return s.Log, sync.OnceValue(func() error { return s.release(dir) }), nil
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

func openLocked(dir string, log *slog.Logger) (*sharedLog, error) {
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	l, err := Open(dir, Options{Log: log})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &sharedLog{Log: l, lock: lock}, nil
}

// lockDir keeps other processes away. The kernel drops the lock when the process dies.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the spool: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s", ErrLocked, dir)
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
