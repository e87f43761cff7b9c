//go:build unix && !linux

package watch

import (
	"errors"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// notifier reports changes of directories and files.
type notifier struct {
	events chan event
	errors chan error

	fsw   *fsnotify.Watcher
	ended chan struct{} // closed when pass has returned
	stop  chan struct{} // closed by close

	mu    sync.Mutex
	wants map[string]interest // guarded by mu: by path
}

func newNotifier() (*notifier, error) {
	fsw, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	n := &notifier{events: make(chan event), errors: make(chan error), fsw: fsw, ended: make(chan struct{}),
		stop: make(chan struct{}), wants: map[string]interest{}}
	go n.pass()
	return n, nil
}

// add watches path. It replaces the interest of an earlier add.
func (n *notifier) add(path string, want interest) error {
	n.mu.Lock()
	n.wants[path] = want
	n.mu.Unlock()
	return n.fsw.Add(path)
}

// remove stops watching path.
func (n *notifier) remove(path string) {
	n.mu.Lock()
	delete(n.wants, path)
	n.mu.Unlock()
	_ = n.fsw.Remove(path)
}

// close ends the watch.
func (n *notifier) close() {
	close(n.stop)
	_ = n.fsw.Close()
	<-n.ended
}

// pass passes on events until close is called.
func (n *notifier) pass() {
	defer close(n.ended)
	for {
		select {
		case <-n.stop:
			return
		case ev := <-n.fsw.Events:
			if op := opOf(ev.Op); op != written || n.wanted(ev.Name)&contents != 0 {
				n.send(event{ev.Name, op})
			}
		case err := <-n.fsw.Errors:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				err = errOverflow
			}
			select {
			case n.errors <- err:
			case <-n.stop:
			}
		}
	}
}

func (n *notifier) send(ev event) {
	select {
	case n.events <- ev:
	case <-n.stop:
	}
}

// wanted returns the interest in a file, by its own path or by that of its directory.
func (n *notifier) wanted(name string) interest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wants[name] | n.wants[filepath.Dir(name)]
}

// ops are the changes that fsnotify reports.
var ops = map[fsnotify.Op]op{fsnotify.Create: created, fsnotify.Write: written, fsnotify.Remove: removed,
	fsnotify.Rename: removed, fsnotify.Chmod: changed}

func opOf(all fsnotify.Op) (found op) {
	for bit, one := range ops {
		if all&bit != 0 {
			found |= one
		}
	}
	return found
}
