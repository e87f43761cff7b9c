package spoollog_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// simFS is a file system in memory with faults. Any call may fail. A crash may lose, tear, reorder or change data that
// was not synced.
type simFS struct {
	rng    *rand.Rand
	odds   int                 // one call in odds fails; 0: none
	faults int                 // number of injected faults
	names  map[string]*simFile // names visible to processes
	synced map[string]*simFile // names that survive a crash
	ops    []simOp             // since SyncDir
	failed bool                // a call failed since failed was last reset
}

// simOp is an unsynced change of names.
type simOp struct {
	from, to string // to is empty for a removal, from for a creation
	file     *simFile
}

// simFile is a file. data is the content visible to processes; disk is the content that survives a crash.
type simFile struct {
	data, disk []byte
	writes     []simWrite // since the last sync
}

// simWrite is a write at an offset, or a truncation to that size when data is nil.
type simWrite struct {
	at   int
	data []byte
}

func newSimFS(rng *rand.Rand) *simFS {
	return &simFS{rng: rng, names: map[string]*simFile{}, synced: map[string]*simFile{}}
}

// fault decides whether a call fails.
func (s *simFS) fault() error {
	if s.odds == 0 || s.rng.IntN(s.odds) > 0 {
		return nil
	}
	s.faults++
	s.failed = true
	if s.rng.IntN(2) == 0 {
		return syscall.ENOSPC
	}
	return syscall.EIO
}

func (s *simFS) ReadDir(dir string) ([]spoollog.FileInfo, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	var files []spoollog.FileInfo
	for name, f := range s.names {
		if filepath.Dir(name) == dir {
			files = append(files, spoollog.FileInfo{Name: filepath.Base(name), Size: int64(len(f.data))})
		}
	}
	slices.SortFunc(files, func(a, b spoollog.FileInfo) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

func (s *simFS) Create(path string) (spoollog.File, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	if s.names[path] != nil {
		return nil, fs.ErrExist
	}
	f := &simFile{}
	s.names[path] = f
	s.ops = append(s.ops, simOp{to: path, file: f})
	return &simHandle{s, f}, nil
}

func (s *simFS) Open(path string) (spoollog.File, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	if s.names[path] == nil {
		return nil, fs.ErrNotExist
	}
	return &simHandle{s, s.names[path]}, nil
}

func (s *simFS) Truncate(path string, size int64) error {
	f := s.names[path]
	if f == nil {
		return fs.ErrNotExist
	}
	return (&simHandle{s, f}).Truncate(size)
}

func (s *simFS) Overwrite(path string, at int64, b []byte) error {
	f := s.names[path]
	if f == nil {
		return fs.ErrNotExist
	}
	if err := s.fault(); err != nil {
		return err
	}
	f.data = applyWrite(f.data, simWrite{int(at), b}, false)
	f.writes = append(f.writes, simWrite{int(at), slices.Clone(b)})
	return (&simHandle{s, f}).Sync()
}

func (s *simFS) Rename(from, to string) error {
	if err := s.fault(); err != nil {
		return err
	}
	f := s.names[from]
	if f == nil {
		return fs.ErrNotExist
	}
	delete(s.names, from)
	s.names[to] = f
	s.ops = append(s.ops, simOp{from, to, f})
	return nil
}

func (s *simFS) Remove(path string) error {
	if err := s.fault(); err != nil {
		return err
	}
	if s.names[path] == nil {
		return fs.ErrNotExist
	}
	s.ops = append(s.ops, simOp{from: path, file: s.names[path]})
	delete(s.names, path)
	return nil
}

func (s *simFS) SyncDir(string) error {
	if err := s.fault(); err != nil {
		return err
	}
	for _, op := range s.ops {
		s.apply(op)
	}
	s.ops = nil
	return nil
}

// apply makes a change of names durable.
func (s *simFS) apply(op simOp) {
	if op.from != "" && s.synced[op.from] == op.file {
		delete(s.synced, op.from)
	}
	if op.to != "" {
		s.synced[op.to] = op.file
	}
}

// crash cuts the power. Any part of the unsynced names and content may survive.
func (s *simFS) crash() {
	for _, op := range s.ops {
		if s.rng.IntN(3) == 0 {
			s.faults++
			continue // and later ones may be there
		}
		if op.from == "" || s.synced[op.from] == op.file {
			s.apply(op)
		}
	}
	s.ops = nil
	s.names = map[string]*simFile{}
	for name, f := range s.synced {
		f.crash(s)
		s.names[name] = f
	}
}

func (f *simFile) crash(s *simFS) {
	for _, w := range f.writes {
		data := w.data
		switch s.rng.IntN(5) {
		case 0: // never written, though later writes may be
			s.faults++
			continue
		case 1: // torn
			s.faults++
			data = data[:s.rng.IntN(len(data)+1)]
		case 2: // changed
			if len(data) > 0 {
				s.faults++
				data = slices.Clone(data)
				data[s.rng.IntN(len(data))] ^= 1 << s.rng.IntN(8)
			}
		}
		f.disk = applyWrite(f.disk, simWrite{w.at, data}, w.data == nil)
	}
	f.writes = nil
	f.data = slices.Clone(f.disk)
}

// applyWrite returns content after the write, with zeros where nothing was written.
func applyWrite(content []byte, w simWrite, truncate bool) []byte {
	if truncate {
		return content[:min(w.at, len(content))]
	}
	if grow := w.at + len(w.data) - len(content); grow > 0 {
		content = append(content, make([]byte, grow)...)
	}
	copy(content[w.at:], w.data)
	return content
}

// simHandle is an open file.
type simHandle struct {
	fs   *simFS
	file *simFile
}

// Write writes only a part when it fails.
func (h *simHandle) Write(b []byte) (n int, err error) {
	if err = h.fs.fault(); err != nil {
		b = b[:h.fs.rng.IntN(len(b)+1)]
	}
	if len(b) > 0 {
		w := simWrite{len(h.file.data), slices.Clone(b)}
		h.file.data = append(h.file.data, b...)
		h.file.writes = append(h.file.writes, w)
	}
	return len(b), err
}

func (h *simHandle) ReadAt(b []byte, at int64) (int, error) {
	if err := h.fs.fault(); err != nil {
		return 0, err
	}
	if at >= int64(len(h.file.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.file.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *simHandle) Truncate(size int64) error {
	if err := h.fs.fault(); err != nil {
		return err
	}
	h.file.data = h.file.data[:min(int(size), len(h.file.data))]
	h.file.writes = append(h.file.writes, simWrite{at: int(size)})
	return nil
}

// Sync that fails may have written any part of the data. The rest is never written, even if later calls return nil.
func (h *simHandle) Sync() error {
	f := h.file
	if err := h.fs.fault(); err != nil {
		for _, w := range f.writes {
			if h.fs.rng.IntN(2) == 0 {
				f.disk = applyWrite(f.disk, w, w.data == nil)
			}
		}
		f.writes = nil
		return err
	}
	for _, w := range f.writes {
		f.disk = applyWrite(f.disk, w, w.data == nil)
	}
	f.writes = nil
	return nil
}

func (h *simHandle) Close() error { return h.fs.fault() }

// flip changes a bit of a closed segment, and reports whether there was one. In an open segment, damage of the last
// write cannot be distinguished from a torn write.
func (s *simFS) flip() bool {
	var all []*simFile
	for name, f := range s.names {
		if strings.Count(name, "-") == 2 && strings.HasSuffix(name, ".spool") && len(f.data) > 0 {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return false
	}
	f := all[s.rng.IntN(len(all))]
	at := s.rng.IntN(len(f.data))
	f.data[at] ^= 1 << s.rng.IntN(8)
	f.disk = slices.Clone(f.data)
	s.faults++
	return true
}

var errSimulation = errors.New("simulation")
