package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	scanInterval = time.Second // time between two scans of the directory for new files
	batchBytes   = 1 << 20     // limit for the positions in a batch, in bytes
)

var leaveAfter = time.Minute // how long a file is followed after its path is free

// isSeveral reports whether the path is a directory, or a pattern for several files. An existing file with the name of
// the pattern takes precedence.
func isSeveral(path string) bool {
	info, err := os.Stat(path)
	if err == nil {
		return info.IsDir()
	}
	return fixedPart(path) != path
}

// checkPattern returns an error for a path with pattern syntax of other programs, unless a file with this name exists.
func checkPattern(path string) error {
	wrong := func(message string) error { return sdk.SettingError{Setting: "path", Message: message} }
	_, err := filepath.Match(path, "")
	open := strings.IndexByte(path, '{')
	switch _, missing := os.Lstat(path); {
	case missing == nil:
		return nil
	case err != nil:
		return wrong("has a [ without its ]: it is no pattern")
	case strings.Contains(path, "**"):
		return wrong("has **, which is not supported: * matches names in one directory; logs/*/*.log matches the " +
			"files one directory below logs")
	case open >= 0 && strings.Contains(path[open:], ",") && strings.Contains(path[open:], "}"):
		return wrong("has {…,…}, which is not supported: use one source for each name, or *, ? and [a-z]")
	case strings.HasPrefix(path, "~/"):
		return wrong("has ~, which only a shell expands: write the home directory")
	}
	return nil
}

// fixedPart returns the path up to the first element that is a pattern.
func fixedPart(path string) string {
	for strings.ContainsAny(path, `*?[\`) {
		path = filepath.Dir(path)
	}
	return path
}

// follower reads several files. It takes one batch from each file in turn.
type follower struct {
	tail                       // initial state of each file; its path is the directory or the pattern
	files   map[string]*single // by path
	order   []*single          // sorted by path
	at      int                // index in order of the file with the last records
	scanned time.Time
}

// open resumes the files in pos.
func (f *follower) open(pos record.Position) error {
	f.files = map[string]*single{}
	places, err := parsePlaces(pos)
	if err == nil && places == nil && len(pos) > 0 {
		places, err = f.placesOf(pos)
	}
	if err != nil {
		return err
	}
	for path, p := range places {
		one := f.follow(path)
		one.parked = &parked{place: p}
		one.retry()
	}
	return f.scan()
}

// placesOf finds the file to which a position in a single file belongs.
func (f *follower) placesOf(pos record.Position) (map[string]place, error) {
	p, err := parsePosition(pos)
	if err != nil {
		return nil, err
	}
	paths, err := f.matches()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		c, err := f.openRegular(path)
		if err != nil {
			continue // scan reports it
		}
		found := p.isIn(c, true)
		c.Close()
		if found {
			return map[string]place{path: p}, nil
		}
	}
	f.log.Warn("none of the files is the one that was read before: all are read from their beginnings", "path", f.path)
	return nil, nil
}

func (f *follower) follow(path string) *single {
	one := &single{tail: f.tail}
	one.path = path
	f.files[path] = one
	f.order = slices.SortedFunc(maps.Values(f.files), func(a, b *single) int { return strings.Compare(a.path, b.path) })
	return one
}

// scan follows new files, and stops following the removed ones.
func (f *follower) scan() error {
	before := f.scanned
	f.scanned = time.Now()
	paths, err := f.matches()
	if err != nil {
		return err
	}
	for path, one := range f.files {
		if one.parked != nil && (one.parked.due() || !slices.Contains(paths, path)) {
			one.retry()
		}
		if one.file == nil && one.parked == nil && !slices.Contains(paths, path) {
			delete(f.files, path)
			f.order = slices.DeleteFunc(f.order, func(o *single) bool { return o == one })
		}
	}
	known := maps.Clone(f.files)
	for _, path := range paths {
		known[path] = nil
	}
	for _, path := range paths {
		if f.files[path] != nil || isRotated(path, known) || f.isOpen(path) {
			continue
		}
		if !before.IsZero() {
			f.warnOfRotated(path, before)
		}
		one := f.follow(path)
		if _, err := one.tail.open(); err != nil {
			one.park(err)
		}
	}
	return nil
}

// warnOfRotated warns when the file at path appeared after since and was rotated since then: the rotated part is not
// read.
func (f *follower) warnOfRotated(path string, since time.Time) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // without the directory there is no file either
	}
	since = since.Add(-10 * time.Millisecond) // file times have the resolution of the clock tick
	own := map[string]*single{path: nil}
	for _, e := range entries {
		rotated := filepath.Join(filepath.Dir(path), e.Name())
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().After(since) &&
			isRotated(rotated, own) && !f.isOpen(rotated) {
			f.log.Warn("file was rotated before it was first read: the lines of the rotated one are missing", "path",
				path, "rotated", e.Name())
			f.skips.Add(rotated, fmt.Errorf("it was rotated before %s was first read", path))
		}
	}
}

// matches returns the paths of the files to read.
func (f *follower) matches() ([]string, error) {
	pattern := f.path
	if info, err := os.Stat(pattern); err == nil && info.IsDir() {
		pattern = filepath.Join(escape(pattern), "*")
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("cannot find the files that match %s: %w", pattern, err)
	}
	f.examineDirectories(filepath.Dir(pattern))
	return slices.DeleteFunc(paths, func(path string) bool {
		if strings.HasPrefix(filepath.Base(path), ".") || packing().MatchString(path) &&
			!canUnpack(f.compression, path) {
			return true
		}
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			err = fmt.Errorf("it is %s", describe(info.Mode()))
		}
		_, gone := os.Lstat(path)
		switch {
		case err == nil || gone != nil && errors.Is(gone, fs.ErrNotExist):
			f.unskip(path)
		case f.files[path] == nil:
			f.skip(path, err)
		}
		return err != nil || info.IsDir()
	}), nil
}

// examineDirectories reports directories in the pattern that cannot be listed: nothing in them can match.
func (f *follower) examineDirectories(pattern string) {
	dirs := []string{pattern}
	if fixedPart(pattern) != pattern {
		dirs, _ = filepath.Glob(pattern) // matches has checked the pattern
		f.examineDirectories(filepath.Dir(pattern))
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() {
			err = readable(dir)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			f.unskip(dir)
		} else {
			f.skip(dir, err)
		}
	}
}

// readable returns an error if a directory cannot be listed.
func readable(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.ReadDir(1); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// skip reports a matching file that is not read.
func (f *follower) skip(path string, err error) {
	if f.skips.Add(path, err) {
		f.log.Warn("cannot read file, skipping it", "path", path, "err", err)
	}
}

func (f *follower) unskip(path string) {
	if f.files[path] == nil && f.skips.Remove(path) {
		f.log.Info("a skipped file is read again, or is gone", "path", path)
	}
}

// escape returns a pattern that matches only the path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// isOpen reports whether the file at a path is still followed under its earlier path.
func (f *follower) isOpen(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(f.order, func(one *single) bool {
		if one.file == nil {
			return false
		}
		own, err := one.file.Stat()
		return err == nil && os.SameFile(own, info)
	})
}

// take returns records, or a block, of the next file that has some.
func (f *follower) take(blocks bool) (*block, []record.Record, error) {
	if time.Since(f.scanned) >= scanInterval {
		if err := f.scan(); err != nil {
			return nil, nil, err
		}
	}
	for range f.order {
		f.at = (f.at + 1) % len(f.order)
		one := f.order[f.at]
		if len(one.buf) == 0 && !one.long {
			continue
		}
		prefix := f.places(one)
		size := len(prefix) + 2*textPerRecord
		if size > record.MaxPosition {
			return nil, nil, fmt.Errorf("cannot follow the %d files that match %s: %w", len(f.order), f.path,
				errTooManyFiles)
		}
		most := min(batchRecords, batchBytes/size+1)
		if blocks && most == batchRecords { // the positions are short
			if b := one.block(prefix); b != nil {
				return b, nil, nil
			}
		}
		if records := one.records(most, prefix); len(records) > 0 {
			return nil, records, nil
		}
	}
	return nil, nil, nil
}

// places returns the prefix of the positions in file one: the places in all other files, and the path of this file.
func (f *follower) places(one *single) []byte {
	var text []byte
	for _, o := range f.order {
		switch {
		case o == one:
		case o.parked != nil && o.parked.place.offset > 0:
			text = append(o.parked.place.append(appendPath(text, o.path)), ' ')
		case o.file != nil && o.offset > 0:
			text = append(o.appendPosition(appendPath(text, o.path)), ' ')
		}
	}
	return appendPath(text, one.path)
}

// advance reads more of every file that is not parked. A file that cannot be read does not block the others.
func (f *follower) advance(ctx context.Context) (more bool, err error) {
	for _, one := range f.order {
		if one.parked != nil {
			continue
		}
		got, err := one.advance(ctx)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			one.park(err)
		}
		more = more || got
	}
	return more, nil
}

func (f *follower) behind() (n int64) {
	for _, one := range f.order {
		n += one.behind()
	}
	return n
}

func (f *follower) close() error {
	var errs []error
	for _, one := range f.order {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}

// isRotated reports whether path, judging by its name, is a rotated file of another known path. The source reads a
// rotated file, when necessary, as a part of the other path.
func isRotated[V any](path string, known map[string]V) bool {
	dir, name := filepath.Split(packing().ReplaceAllString(path, ""))
	ext := filepath.Ext(name)
	for _, base := range []string{
		rotatedName().ReplaceAllString(name, ""),
		rotatedDate().ReplaceAllString(strings.TrimSuffix(name, ext), "") + ext,
		name, // compressed
	} {
		if _, ok := known[dir+base]; ok && dir+base != path {
			return true
		}
	}
	return false
}
