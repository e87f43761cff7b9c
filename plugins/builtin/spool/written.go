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

// mostPending is how many bytes wait in memory at most to be written together.
const mostPending = 4 << 20

// written is what a destination appended and did not wait for.
type written struct {
	device  uint64
	syncing sync.Mutex // held while it is synced

	mu      sync.Mutex
	commits []*spoollog.Commit // guarded by mu: not known to be durable
	err     error              // guarded by mu: why something is not
}

// add has syncLater wait for the commit.
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

// deviceOf returns the disk that dir is on.
func deviceOf(dir string) uint64 {
	if info, err := os.Stat(dir); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			return uint64(stat.Dev)
		}
	}
	return 0
}

// ownDevice returns a number for a spool that waits for its readers: no other spool
// waits for those.
func ownDevice(dir string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return h.Sum64() | 1<<63
}
