package store

import (
	"fmt"
	"os"
)

// InPlace returns nil while the paths of the store lead to its open files. It returns ErrMoved if a file was deleted or
// replaced; the store then keeps using the open files, which no longer have a name.
func (q *sqlite) InPlace() error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed || q.pools == nil {
		return nil // no file is open
	}
	if err := q.pools.inPlace(); err != nil {
		return err
	}
	if info, err := q.lock.File().Stat(); err == nil && !leadsTo(q.lock.File().Name(), info) {
		return fmt.Errorf("%w: %q was deleted or replaced, so nothing prevents a second agent from using the store; "+
			"restart this agent", ErrMoved, q.lock.File().Name())
	}
	return nil
}

// openFile identifies a file at the time when it was opened.
type openFile struct {
	path string
	info os.FileInfo
}

// identify records the open files: the store and its log.
func (p *pools) identify(path string) {
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			p.files = append(p.files, openFile{name, info})
		}
	}
}

func (p *pools) inPlace() error {
	for _, f := range p.files {
		if !leadsTo(f.path, f.info) {
			return fmt.Errorf("%w: %q was deleted or replaced, so everything saved since is lost when the agent "+
				"ends; put a copy of the store there before the agent starts again", ErrMoved, f.path)
		}
	}
	return nil
}

// leadsTo reports whether the file at path is this one.
func leadsTo(path string, file os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, file)
}
