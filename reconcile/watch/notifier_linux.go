package watch

import (
	"errors"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notifier reports changes of directories and files. It uses inotify itself, because fsnotify subscribes to every
// write in a directory, and does not report when a file is closed.
type notifier struct {
	events chan event
	errors chan error

	fd    int // Fd of file would make its reads block
	file  *os.File
	ended chan struct{} // closed when read has returned
	stop  chan struct{} // closed by close

	mu    sync.Mutex
	ids   map[string]int              // guarded by mu: watch descriptor of each path
	paths map[int]map[string]interest // guarded by mu: paths of each watch descriptor; links to one file share it
}

func newNotifier() (*notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	n := &notifier{events: make(chan event), errors: make(chan error), fd: fd, file: os.NewFile(uintptr(fd), "inotify"),
		ended: make(chan struct{}), stop: make(chan struct{}), ids: map[string]int{},
		paths: map[int]map[string]interest{}}
	go n.read()
	return n, nil
}

// masks are the events of the kernel for each interest.
var masks = map[interest]uint32{
	names: unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF,
	contents: unix.IN_MODIFY | unix.IN_CLOSE_WRITE,
}

// add watches path. It replaces the interest of an earlier add.
func (n *notifier) add(path string, want interest) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	// The subscription may be shared by other paths, so it is never reduced before all interests are known.
	id, err := n.subscribe(path, want, unix.IN_MASK_ADD)
	if err != nil {
		return err
	}
	if known, ok := n.ids[path]; ok && known != id { // another file has taken its place
		n.forget(path, known)
	}
	if n.paths[id] == nil {
		n.paths[id] = map[string]interest{}
	}
	less := n.paths[id][path]&^want != 0
	n.ids[path], n.paths[id][path] = id, want
	if !less {
		return nil
	}
	_, err = n.subscribe(path, n.wanted(id), 0)
	return err
}

func (n *notifier) subscribe(path string, want interest, flags uint32) (int, error) {
	for bit, mask := range masks {
		if want&bit != 0 {
			flags |= mask
		}
	}
	id, err := unix.InotifyAddWatch(n.fd, path, flags)
	return id, os.NewSyscallError("inotify_add_watch", err)
}

// wanted returns the interest of all paths of a watch descriptor. The caller holds mu.
func (n *notifier) wanted(id int) (all interest) {
	for _, want := range n.paths[id] {
		all |= want
	}
	return all
}

// remove stops watching path.
func (n *notifier) remove(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.ids[path]; ok {
		n.forget(path, id)
	}
}

// forget removes a path, and the subscription with the last one. The caller holds mu.
func (n *notifier) forget(path string, id int) {
	delete(n.ids, path)
	delete(n.paths[id], path)
	if len(n.paths[id]) == 0 {
		delete(n.paths, id)
		_, _ = unix.InotifyRmWatch(n.fd, uint32(id)) // it fails if the file is gone
	}
}

// close ends the watch.
func (n *notifier) close() {
	close(n.stop)
	_ = n.file.Close()
	<-n.ended
}

// read passes on events until close is called.
func (n *notifier) read() {
	defer close(n.ended)
	buf := make([]byte, 16<<10) // at least one event
	for {
		k, err := n.file.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil && !n.report(err) {
			return
		}
		for at := 0; at+unix.SizeofInotifyEvent <= k; {
			raw := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += unix.SizeofInotifyEvent
			entry := strings.TrimRight(string(buf[at:at+int(raw.Len)]), "\x00")
			at += int(raw.Len)
			if !n.pass(int(raw.Wd), raw.Mask, entry) {
				return
			}
		}
	}
}

// report passes on an error. It returns false after close.
func (n *notifier) report(err error) bool {
	select {
	case n.errors <- err:
		return true
	case <-n.stop:
		return false
	}
}

// gone are the events after which a watch descriptor has ended, or leads to a file with another name.
const gone = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT

// pass passes on an event of the kernel for each path of its watch descriptor. It returns false after close.
func (n *notifier) pass(id int, mask uint32, entry string) bool {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return n.report(errOverflow)
	}
	op := opOf(mask)
	for _, path := range n.reported(id, mask) {
		name := path
		if entry != "" {
			name = strings.TrimSuffix(path, "/") + "/" + entry
		}
		select {
		case n.events <- event{name, op}:
		case <-n.stop:
			return false
		}
	}
	return true
}

// reported returns the paths of a watch descriptor, and forgets it if the event ends it.
func (n *notifier) reported(id int, mask uint32) (paths []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for path := range n.paths[id] {
		paths = append(paths, path)
	}
	if mask&gone != 0 {
		for _, path := range paths {
			n.forget(path, id)
		}
	}
	return paths
}

// ops are the changes that events of the kernel report.
var ops = map[uint32]op{
	unix.IN_CREATE | unix.IN_MOVED_TO:          created,
	unix.IN_MODIFY:                             written,
	unix.IN_CLOSE_WRITE:                        complete,
	unix.IN_DELETE | unix.IN_MOVED_FROM | gone: removed,
	unix.IN_ATTRIB:                             changed,
}

func opOf(mask uint32) (found op) {
	for bits, one := range ops {
		if mask&bits != 0 {
			found |= one
		}
	}
	return found
}
