package watch

import (
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// Deafen has w get no events, but err, while deaf is true.
func (w *Watcher) Deafen(deaf *atomic.Bool, err error) {
	w.notify = func() (*fsnotify.Watcher, error) {
		if deaf.Load() {
			return nil, err
		}
		return fsnotify.NewWatcher()
	}
}
