package spool

import (
	"context"
	"os"
	"sync"
	"syscall"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// mostPending is how many bytes wait in memory at most for the host to have them synced.
const mostPending = 4 << 20

// written is what a destination appended and did not wait for.
type written struct {
	device  uint64
	syncing sync.Mutex // held while it is synced

	mu   sync.Mutex
	last *spoollog.Commit // guarded by mu: not synced yet, nil when all is
	err  error            // guarded by mu: why something was not
}

// add has syncLater wait for the commit, and for those before it.
func (w *written) add(c *spoollog.Commit, syncLater func(sdk.Syncer)) error {
	w.mu.Lock()
	if w.err != nil {
		defer w.mu.Unlock()
		return w.err
	}
	before := w.last
	w.last = c
	w.mu.Unlock()
	switch {
	case before == nil:
		syncLater(w)
	case before != c: // that one was written by another destination, and is done
		return w.note(before.Wait(context.Background()))
	}
	return nil
}

// Sync implements sdk.Syncer.
func (w *written) Sync() error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	w.mu.Lock()
	last := w.last
	w.last = nil
	w.mu.Unlock()
	return w.note(last.Wait(context.Background()))
}

// note keeps the first error there is, and returns it.
func (w *written) note(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return w.err
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
