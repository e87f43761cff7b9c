package spool

import (
	"context"
	"hash/fnv"
	"os"
	"sync"
	"syscall"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// maxPending is the maximum number of bytes in memory that wait to be written together.
const maxPending = 4 << 20

// written holds the commits of a destination that did not wait for them.
type written struct {
	device  uint64
	syncing sync.Mutex // held during a sync

	mu      sync.Mutex
	commits []*spoollog.Commit // guarded by mu: not yet known to be durable
	err     error              // guarded by mu: result of the last failed commit
}

// add adds a commit, and schedules a sync with syncLater if none is scheduled.
func (w *written) add(c *spoollog.Commit, syncLater func(sdk.Syncer)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n := len(w.commits); {
	case w.err != nil:
		return w.err
	case n > 0 && w.commits[n-1] == c:
		return nil
	case n == 0:
		defer syncLater(w)
	}
	w.commits = append(w.commits, c)
	return nil
}

// Sync implements sdk.Syncer.
func (w *written) Sync() error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	w.mu.Lock()
	commits, err := w.commits, w.err
	w.commits = nil
	w.mu.Unlock()
	for _, c := range commits {
		if failed := c.Wait(context.Background()); err == nil {
			err = failed
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	return err
}

// Device implements sdk.Syncer.
func (w *written) Device() uint64 { return w.device }

// deviceOf returns the device of dir.
func deviceOf(dir string) uint64 {
	if info, err := os.Stat(dir); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			return uint64(stat.Dev)
		}
	}
	return 0
}

// ownDevice returns a device number for a hybrid spool. The number is unique, so that no other spool waits for the
// readers of this one.
func ownDevice(dir string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return h.Sum64() | 1<<63
}
