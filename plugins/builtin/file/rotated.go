package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// rotated is a file that, judging by its name, had the path earlier.
type rotated struct {
	name   string // without the extension of a compression
	number int    // number at the end of the name; 0 without one
	packed string // extension of the compression; empty if not compressed
	order  string // from the name: text that grows with the time of the rotation; empty if the name does not tell
	info   os.FileInfo
}

// Suffixes of a rotated file after the original name, and before its extension. A short number before the extension
// belongs to another file of a group, for example worker-2.log.
const date = `[-._][0-9]{4}[-._]?[0-9]{2}[-._]?[0-9]{2}[-0-9TZ:.+_]*`

var (
	behindName      = texts.Regexp(`^(\.old|\.([0-9]{1,7})|` + date + `)$`)
	beforeExtension = texts.Regexp(`^` + date + `$`)
	rotatedName     = texts.Regexp(`(\.old|\.[0-9]{1,7}|` + date + `)$`)
	rotatedDate     = texts.Regexp(date + `$`)
	kubeletName     = texts.Regexp(`\.([0-9]{8}-[0-9]{6})$`)
	packing         = texts.Regexp(`\.(gz|bz2|xz|zst|lz4|zip)$`)
)

// rotatedFrom reports whether name is a possible name for a rotated file of base, and returns the number at its end.
func rotatedFrom(base, name string) (number int, ok bool) {
	if mark, ok := strings.CutPrefix(name, base); ok {
		m := behindName().FindStringSubmatch(mark)
		if m == nil {
			return 0, false
		}
		number, _ = strconv.Atoi(m[2]) // empty if the suffix is no number
		return number, true
	}
	ext := filepath.Ext(base)
	mark, begins := strings.CutPrefix(name, strings.TrimSuffix(base, ext))
	mark, ends := strings.CutSuffix(mark, ext)
	return 0, begins && ends && beforeExtension().MatchString(mark)
}

// orderOf returns rotated.order of the file with this name. The kubelet names files by time. Docker numbers them, and
// the newest has the lowest number; other programs may number them the other way. Both compress a file after the next
// one was begun, so that the time of the last write does not tell the order.
func (t *tail) orderOf(name string, number int) string {
	if m := kubeletName().FindStringSubmatch(name); m != nil {
		return m[1]
	}
	if number > 0 && t.isContainer() {
		return fmt.Sprintf("%08d", 99_999_999-number)
	}
	return ""
}

// compare orders files by the time at which they had the path. Files last written within the same clock tick are
// ordered by number; the newest file has the lowest number.
func (r *rotated) compare(o *rotated) int {
	if r.order != "" && o.order != "" {
		return cmp.Compare(r.order, o.order)
	}
	return cmp.Or(r.info.ModTime().Compare(o.info.ModTime()), cmp.Compare(o.number, r.number),
		cmp.Compare(r.name, o.name))
}

// successor opens the file to read after the open one: the first file that had the path since then, or else the current
// file at the path. It returns nil if there is none yet.
func (t *tail) successor() (*content, error) {
	for {
		now, err := t.openRegular(t.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		var current os.FileInfo
		if now != nil {
			if current, err = now.Stat(); err != nil {
				now.Close()
				return nil, fmt.Errorf("cannot examine %s: %w", t.path, err)
			}
		}
		files, err := t.between(current)
		f, moved := t.first(files)
		if err == nil && f == nil && !moved {
			return now, nil
		}
		if now != nil {
			now.Close()
		}
		if err != nil || f != nil {
			return f, err
		}
	}
}

// overtaken reports whether a file with content had the path after the open one and before current. Such a file is read
// even if current is nil or still empty.
func (t *tail) overtaken(current os.FileInfo) (bool, error) {
	files, err := t.between(current)
	return len(files) > 0, err
}

// between returns, in order, the files that had the path after the open one and before current. current is nil while
// the path is free.
func (t *tail) between(current os.FileInfo) ([]*rotated, error) {
	left, err := t.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot examine %s: %w", t.path, err)
	}
	own, files := &rotated{number: math.MaxInt, info: left}, []*rotated(nil)
	for _, r := range rotatedFiles(t.path) {
		r.order = t.orderOf(r.name, r.number)
		switch {
		case os.SameFile(r.info, left):
			own = r
		case r.info.Size() > 0 && (current == nil || !os.SameFile(r.info, current)):
			files = append(files, r)
		}
	}
	if own.name == "" {
		if copied := t.copyAmong(files); copied != nil {
			own = copied
		}
	}
	files = slices.DeleteFunc(files, func(r *rotated) bool {
		return own.compare(r) >= 0 || own.name == r.name ||
			current != nil && r.order == "" && r.info.ModTime().After(current.ModTime())
	})
	slices.SortFunc(files, (*rotated).compare)
	if own.name == "" && len(files) > 0 && files[0].packed != "" && files[0].order == "" {
		// the compressed copy of the open file
		files = files[1:]
	}
	return files, nil
}

// copyAmong returns the compressed copy of the open file, among files whose names tell their order; nil if there is
// none.
func (t *tail) copyAmong(files []*rotated) *rotated {
	p := t.place()
	for _, r := range files {
		if r.packed == "" || r.order == "" || p.offset == 0 || !canUnpack(t.compression, r.name+r.packed) {
			continue
		}
		if t.copied != nil && os.SameFile(r.info, t.copied) && r.info.Size() == t.copied.Size() {
			return r
		}
		f, err := t.openRegular(r.name + r.packed)
		if err != nil {
			continue // it was moved or removed meanwhile, or is reported when it is read
		}
		same := p.isIn(f, false)
		f.Close()
		if same {
			t.copied = r.info
			return r
		}
	}
	return nil
}

// first opens the first readable file. moved reports that a file was moved meanwhile, so that the caller must list the
// files again.
func (t *tail) first(files []*rotated) (f *content, moved bool) {
	for _, r := range files {
		name := r.name + r.packed
		if r.packed != "" && !canUnpack(t.compression, name) {
			t.log.Warn("file was rotated before it was read, and is compressed in a way that is not read: its lines "+
				"are missing", "path", t.path, "rotated", name)
			t.skips.Add(name,
				errors.New("it was rotated before it was read, and is compressed in a way that is not read"))
			continue
		}
		f, err := t.openRegular(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, true
		}
		if err != nil {
			t.log.Warn("file was rotated before it was read, and cannot be read: its lines are missing", "path", t.path,
				"rotated", name, "err", err)
			t.skips.Add(name, fmt.Errorf("it was rotated before it was read, and cannot be read: %w", err))
			continue
		}
		if info, err := f.Stat(); err != nil || !os.SameFile(info, r.info) {
			f.Close()
			return nil, true
		}
		t.log.Info("file was rotated before it was read; reading its content first", "path", t.path, "rotated", name)
		return f, false
	}
	return nil, false
}

// rotatedFiles returns the files near path that, judging by their names, had it earlier.
func rotatedFiles(path string) (files []*rotated) {
	bases := []string{filepath.Base(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) != bases[0] {
		bases = append(bases, filepath.Base(real))
	}
	for i, base := range bases {
		bases[i] = packing().ReplaceAllString(base, "")
	}
	for _, name := range neighbours(path) {
		packed := packing().FindString(name)
		name = strings.TrimSuffix(name, packed)
		for _, base := range bases {
			number, ok := rotatedFrom(base, filepath.Base(name))
			if !ok {
				continue
			}
			if info, err := os.Lstat(name + packed); err == nil && info.Mode().IsRegular() {
				files = append(files, &rotated{name: name, number: number, packed: packed, info: info})
			}
			break
		}
	}
	return files
}
