package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// resume continues after p in the file of p, at the path or under another name. If that file is gone, it reads the file
// at the path from the beginning.
func (t *tail) resume(p place) error {
	f, err := t.openRegular(t.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f != nil && p.inode == 0 {
		return t.resumeAtOffset(f, p)
	}
	if f != nil && p.isIn(f, true) {
		return t.use(f, p)
	}
	if old := p.find(t.path, time.Time{}, t.openRegular); old != nil {
		t.log.Info("file was rotated; reading the rest of the old file first", "path", t.path, "rotated", old.Name())
		if f != nil {
			f.Close()
		}
		return t.use(old, p)
	}
	if f != nil && p.isIn(f, false) && p.endsLine(f) {
		t.log.Info("file was replaced by a longer copy; continuing with its new lines", "path", t.path)
		p.switches++
		return t.use(f, p)
	}
	if f != nil && p.hasInode(f) {
		t.log.Warn("file was truncated and no copy exists: unread lines are lost; starting over", "path", t.path)
	} else {
		t.log.Warn("file was replaced and the old file is gone: its unread lines are lost; starting over",
			"path", t.path)
	}
	t.switches = p.switches + 1
	if f == nil {
		return nil
	}
	return t.use(f, place{switches: t.switches})
}

// resumeAtOffset continues at the beginning of the line that contains the offset, with the line's number.
func (t *tail) resumeAtOffset(f *content, p place) error {
	at := place{}
	l := lines{file: f, want: largeRead}
	for l.offset < p.offset {
		if _, ok := l.next(); ok {
			if l.offset <= p.offset {
				at.offset, at.line, at.before = l.offset, at.line+1, l.before
			}
			continue
		}
		err := l.fill(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			f.Close()
			return fmt.Errorf("cannot read line %d of %s: %w", at.line+1, t.path, err)
		}
	}
	if l.end() < p.offset {
		t.log.Warn("file is shorter than it was, starting over",
			"path", t.path)
		at = place{switches: 1}
	}
	return t.use(f, at)
}

// isIn reports whether p is a place in f: the beginning and the bytes before the place are the same, and, with
// sameInode, the inode.
func (p *place) isIn(f *content, sameInode bool) bool {
	info, err := f.Stat()
	if err != nil || f.packed == nil && info.Size() < p.offset || sameInode && inodeOf(info) != p.inode {
		return false
	}
	if p.offset == leftOut {
		return p.isLeftOut(f)
	}
	if p.offset == 0 && p.before.length > 0 {
		sum, err := sumOf(f, 0, p.before.length)
		return err == nil && sum == p.before.sum
	}
	head := make([]byte, min(p.offset, headBytes))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	if headHash(head, p.offset) != p.head {
		return false
	}
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, io.NewSectionReader(f, p.offset-p.before.length, p.before.length))
	return err == nil && n == p.before.length && sum.Sum32() == p.before.sum
}

func (p *place) hasInode(f *content) bool {
	info, err := f.Stat()
	return err == nil && inodeOf(info) == p.inode
}

// find opens the file of p under a name other than path: the same file renamed, or a copy with a name that begins like
// path. Of several copies it chooses the first one made since seen, or the last one if seen is zero. It returns nil if
// there is none. open opens a file for reading.
func (p *place) find(path string, seen time.Time, open func(string) (*content, error)) *content {
	var copied *content
	var copiedInfo os.FileInfo
	for _, name := range neighbours(path) {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		renamed := inodeOf(info) == p.inode
		isCopy := isCopyName(filepath.Base(path), filepath.Base(name)) && !info.ModTime().Before(seen) &&
			(copied == nil || info.ModTime().After(copiedInfo.ModTime()) == seen.IsZero())
		if !renamed && !isCopy {
			continue
		}
		f, err := open(name)
		if err != nil {
			continue
		}
		switch {
		case !p.isIn(f, false) || !renamed && !p.endsLine(f):
			f.Close()
		case renamed:
			if copied != nil {
				copied.Close()
			}
			return f
		default:
			if copied != nil {
				copied.Close()
			}
			copied, copiedInfo = f, info
		}
	}
	return copied
}

// isCopyName reports whether name is a possible name for a copy of base.
func isCopyName(base, name string) bool {
	if strings.HasPrefix(name, base) {
		return true
	}
	_, ok := rotatedFrom(base, packing().ReplaceAllString(name, ""))
	return ok
}

// endsLine reports whether p is after a newline in f, or at a beginning that it identifies.
func (p *place) endsLine(f *content) bool {
	var last [1]byte
	if p.offset == 0 {
		return p.before.length > 0
	}
	_, err := f.ReadAt(last[:], p.offset-1)
	return err == nil && bytes.Equal(last[:], []byte{'\n'})
}

// neighbours returns the other files in the directory of path and, when path is a link, in the target's directory.
func neighbours(path string) []string {
	dirs := []string{filepath.Dir(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	var names []string
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // a directory that cannot be listed has no neighbours
		for _, e := range entries {
			if name := filepath.Join(dir, e.Name()); name != filepath.Clean(path) {
				names = append(names, name)
			}
		}
	}
	return names
}
