package file

import (
	"bytes"
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

// follower reads several files. It takes one batch from each file in turn.
type follower struct {
	tail                       // initial state of each file; its path is the directory or the pattern
	files   map[string]*single // by path
	order   []*single          // sorted by path
	at      int                // index in order of the file with the last records
	scanned time.Time
	every   time.Duration   // time between two scans
	closed  map[string]bool // directories that the last search with ** could not list
	queued  bool            // files may wait to be opened
	notes   []string        // patterns that match nothing
	state   stateDir
	ledger  *ledger // places of many files; nil: positions have them
}

// open resumes the files in pos.
func (f *follower) open(pos record.Position) error {
	f.files = map[string]*single{}
	places, err := f.placesAt(pos)
	if err != nil {
		return err
	}
	found, err := f.matches()
	if err != nil {
		return err
	}
	if f.ledger, err = f.state.ledger(f.textSize(places, found), places); err != nil {
		return err
	}
	isWanted := f.wanted()
	for path, p := range places {
		if isWanted(path) {
			f.follow(path).resting = &resting{place: p, due: f.scanned}
		}
	}
	f.sort()
	f.queued = true
	f.turn()
	return f.followAll(found)
}

// placesAt returns where reading begins in each file.
func (f *follower) placesAt(pos record.Position) (map[string]place, error) {
	if len(pos) == 0 {
		return f.state.start(f.atEnds, func() (map[string]place, error) {
			found, err := f.matches()
			return f.endsOf(found), err
		})
	}
	places, others, err := parsePlaces(pos)
	switch {
	case err != nil:
		return nil, err
	case others:
		return f.state.with(places, f.log)
	case places == nil:
		return f.placesOf(pos)
	}
	return places, nil
}

// endsOf returns the ends of files. A file that cannot be read now has none, and is read from its beginning.
func (f *follower) endsOf(found []match) map[string]place {
	places := map[string]place{}
	for _, m := range found {
		if p, err := f.endOf(m.path); err == nil && p.offset > 0 {
			places[m.path] = p
		}
	}
	return places
}

// placesOf finds the file to which a position in a single file belongs.
func (f *follower) placesOf(pos record.Position) (map[string]place, error) {
	p, err := parsePosition(pos)
	if err != nil {
		return nil, err
	}
	found, err := f.matches()
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		c, err := f.openRegular(m.path)
		if err != nil {
			continue // scan reports it
		}
		is := p.isIn(c, true)
		c.Close()
		if is {
			return map[string]place{m.path: p}, nil
		}
	}
	f.log.Warn("none of the files is the one that was read before: all are read from their beginnings", "path", f.path)
	return nil, nil
}

// wanted returns a function that reports whether the pattern, and no exclusion, matches a path.
func (f *follower) wanted() func(path string) bool {
	pattern := f.pattern()
	parts, base := elementsOf(pattern), fixedPart(pattern)
	return func(path string) bool {
		return parts.match(strings.Split(filepath.Clean(path), "/")) && excluded(f.exclude, base, path) < 0
	}
}

// follow adds a file. The caller sorts the files afterwards.
func (f *follower) follow(path string) *single {
	one := &single{tail: f.tail}
	one.path = path
	one.assembler = newAssembler(f.options)
	f.files[path] = one
	f.order = append(f.order, one)
	return one
}

func (f *follower) sort() {
	slices.SortFunc(f.order, func(a, b *single) int { return strings.Compare(a.path, b.path) })
}

// scanShare limits the share of time that scans take: a scan is followed by a pause this many times as long.
const scanShare = 20

// scan follows new files, and stops following the removed ones.
func (f *follower) scan() error {
	begin := time.Now()
	found, err := f.matches()
	if err != nil {
		return err
	}
	err = f.followAll(found)
	f.every = max(scanInterval, scanShare*time.Since(begin))
	return err
}

// followAll follows the found files that are new, and stops following the removed ones.
func (f *follower) followAll(found []match) error {
	before := f.scanned
	f.scanned = time.Now()
	exists := make(map[string]os.FileInfo, len(found))
	for _, m := range found {
		exists[m.path] = m.info
	}
	for path, one := range f.files {
		info, ok := exists[path]
		switch {
		case one.resting != nil:
			f.queued = one.resting.compare(info, f.scanned) || f.queued
		case one.parked != nil && (one.parked.due() || !ok):
			one.retry()
		}
		if one.isGone() && !ok {
			delete(f.files, path)
		}
	}
	f.order = slices.DeleteFunc(f.order, func(o *single) bool { return f.files[o.path] != o })
	known := maps.Clone(f.files)
	for _, m := range found {
		known[m.path] = nil
	}
	inodes := f.inodes()
	for _, m := range found {
		if f.files[m.path] != nil || isRotated(m.path, known) || inodes[inodeOf(m.info)] && f.isOpen(m.info) {
			continue
		}
		if !before.IsZero() {
			f.warnOfRotated(m.path, before)
		}
		f.follow(m.path).resting = &resting{due: f.scanned, left: m.info.Size()}
		f.queued = true
	}
	f.sort()
	f.turn()
	f.ledger.keep(f.files)
	return nil
}

// inodes returns the inodes of the followed files.
func (f *follower) inodes() map[uint64]bool {
	all := make(map[uint64]bool, len(f.order))
	for _, one := range f.order {
		if one.resting != nil && one.resting.info != nil {
			all[inodeOf(one.resting.info)] = true
		}
		all[one.inode] = true
	}
	return all
}

// textSize returns about the size of a position with places in all of these files.
func (f *follower) textSize(places map[string]place, found []match) (n int) {
	for path := range places {
		n += len(path) + textPerRecord
	}
	for _, m := range found {
		if _, ok := places[m.path]; !ok {
			n += len(m.path) + textPerRecord
		}
	}
	return n
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
			isRotated(rotated, own) && !f.isOpen(info) {
			f.log.Warn("file was rotated before it was first read: the lines of the rotated one are missing", "path",
				path, "rotated", e.Name())
			f.skips.Add(rotated, fmt.Errorf("it was rotated before %s was first read", path))
		}
	}
}

// match is a file that the source reads.
type match struct {
	path string
	info os.FileInfo
}

// pattern returns the pattern of the files.
func (f *follower) pattern() string {
	if info, err := os.Stat(f.path); err == nil && info.IsDir() {
		return filepath.Join(escape(f.path), "*")
	}
	return f.path
}

// matches returns the files to read.
func (f *follower) matches() ([]match, error) {
	pattern, excludes := f.pattern(), make([]bool, len(f.exclude))
	paths, err := f.find(pattern, excludes)
	if err == nil && len(paths) > maxFiles {
		err = fmt.Errorf("there are %d files, more than %d: exclude some, or read them with several sources",
			len(paths), maxFiles)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the files that match %s: %w", pattern, err)
	}
	all := make([]match, 0, len(paths))
	for _, path := range paths {
		if info := f.readable(path); info != nil {
			all = append(all, match{path, info})
		}
	}
	f.notes = f.notesOf(len(all) > 0, excludes)
	return all, nil
}

// find returns the paths that match a pattern, without the excluded ones. It sets the elements of used for the
// exclusions that exclude something.
func (f *follower) find(pattern string, used []bool) (paths []string, err error) {
	excludes := func(i int) bool {
		if i >= 0 {
			used[i] = true
		}
		return i >= 0
	}
	if slices.Contains(strings.Split(pattern, "/"), anyDirectories) {
		unlisted := map[string]bool{}
		s := search{pattern: elementsOf(pattern), failed: func(dir string, err error) {
			unlisted[dir] = true
			f.skip(dir, err)
		}, enter: func(path string) bool {
			return !excludes(slices.IndexFunc(f.exclude, func(x exclusion) bool { return x.matches(path) }))
		}}
		if paths, err = s.run(); err != nil {
			return nil, err
		}
		for dir := range f.closed {
			if !unlisted[dir] {
				f.unskip(dir)
			}
		}
		f.closed = unlisted
	} else {
		if paths, err = filepath.Glob(pattern); err != nil {
			return nil, err
		}
		f.examineDirectories(filepath.Dir(pattern), parentsOf(paths))
	}
	base := fixedPart(pattern)
	return slices.DeleteFunc(paths, func(path string) bool { return excludes(excluded(f.exclude, base, path)) }), nil
}

// readable returns the description of a file that the source reads, or nil. It reports a file that cannot be read.
func (f *follower) readable(path string) os.FileInfo {
	if strings.HasPrefix(filepath.Base(path), ".") || packing().MatchString(path) && !canUnpack(f.compression, path) {
		return nil
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
	if err != nil || info.IsDir() {
		return nil
	}
	return info
}

// notesOf describes the patterns that match nothing.
func (f *follower) notesOf(found bool, excludes []bool) (notes []string) {
	if !found {
		notes = append(notes, "no file matches "+f.path)
	}
	for i, used := range excludes {
		if !used {
			notes = append(notes, "nothing matches "+f.exclude[i].text+" in exclude")
		}
	}
	return notes
}

// parentsOf returns the directories in which the paths are.
func parentsOf(paths []string) map[string]bool {
	all := map[string]bool{}
	for _, path := range paths {
		for dir := filepath.Dir(path); !all[dir]; dir = filepath.Dir(dir) {
			all[dir] = true
		}
	}
	return all
}

// examineDirectories reports directories in the pattern that cannot be listed: nothing in them can match. In the listed
// ones something was found.
func (f *follower) examineDirectories(pattern string, listed map[string]bool) {
	dirs := []string{pattern}
	if fixedPart(pattern) != pattern {
		dirs, _ = filepath.Glob(pattern) // matches has checked the pattern
		f.examineDirectories(filepath.Dir(pattern), listed)
	}
	for _, dir := range dirs {
		if listed[dir] {
			f.unskip(dir)
			continue
		}
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() {
			err = listable(dir)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			f.unskip(dir)
		} else {
			f.skip(dir, err)
		}
	}
}

// listable returns an error if a directory cannot be listed.
func listable(dir string) error {
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

// isOpen reports whether a file is still followed under another path.
func (f *follower) isOpen(info os.FileInfo) bool {
	return slices.ContainsFunc(f.order, func(one *single) bool {
		if r := one.resting; r != nil {
			return r.info != nil && os.SameFile(r.info, info)
		}
		if one.file == nil {
			return false
		}
		own, err := one.file.Stat()
		return err == nil && os.SameFile(own, info)
	})
}

// take returns records of the next files that have some, or a block of the next one.
func (f *follower) take(ctx context.Context, blocks bool) (b *block, all []record.Record, err error) {
	if time.Since(f.scanned) >= f.every {
		if err := f.scan(); err != nil {
			return nil, nil, err
		}
	}
	positions, content, maxContent := 0, 0, sdk.BatchBytes(ctx, largeRead)
	for range f.order {
		next := (f.at + 1) % len(f.order)
		one := f.order[next]
		if len(all) > 0 && (len(all) >= batchRecords || positions >= batchBytes ||
			content+len(one.buf) > maxContent || blocks && len(one.buf) > smallestBlock) {
			return nil, all, nil
		}
		f.at = next
		if len(one.buf) == 0 && !one.long && !one.ends() {
			continue
		}
		prefix := f.places(one)
		size := len(prefix) + 2*textPerRecord
		if size > record.MaxPosition {
			return nil, nil, f.tooMany()
		}
		most := min(batchRecords-len(all), (batchBytes-positions)/size+1)
		if blocks && most == batchRecords { // the positions are short
			if b := one.block(prefix); b != nil {
				return b, nil, nil
			}
		}
		buffered := len(one.buf)
		records := one.records(most, prefix)
		if all == nil && len(records) < most {
			all = make([]record.Record, 0, len(records)+f.buffered(most-len(records)))
		}
		all = append(all, records...)
		positions, content = positions+len(records)*size, content+buffered-len(one.buf)
	}
	return nil, all, nil
}

// buffered returns the number of buffered lines, at most most.
func (f *follower) buffered(most int) (n int) {
	for _, one := range f.order {
		if n += bytes.Count(one.buf, newline); n >= most {
			return most
		}
	}
	return n
}

// tooMany returns the error that positions cannot have the places in all files.
func (f *follower) tooMany() error {
	if f.state.dir != "" {
		return fmt.Errorf("there are %d files that match %s now: the source must restart to keep their places "+
			"outside of positions", len(f.order), f.path)
	}
	return fmt.Errorf("cannot follow the %d files that match %s: %w", len(f.order), f.path, errTooManyFiles)
}

// places returns the prefix of the positions in file one: the places in all other files, and the path of this file.
func (f *follower) places(one *single) []byte {
	if f.ledger != nil {
		return appendPath([]byte(inLedger), one.path)
	}
	var text []byte
	for _, o := range f.order {
		switch {
		case o == one:
		case o.resting != nil && o.resting.place.isBegun():
			text = append(o.resting.place.append(appendPath(text, o.path)), ' ')
		case o.parked != nil && o.parked.place.isBegun():
			text = append(o.parked.place.append(appendPath(text, o.path)), ' ')
		case o.file != nil:
			if p := o.position(); p.isBegun() {
				text = append(p.append(appendPath(text, o.path)), ' ')
			}
		}
	}
	return appendPath(text, one.path)
}

// advance reads more of every open file. A file that cannot be read does not block the others.
func (f *follower) advance(ctx context.Context) (most result, err error) {
	f.turn()
	for _, one := range f.order {
		if one.parked != nil || one.resting != nil {
			continue
		}
		got, err := one.advance(ctx)
		if ctx.Err() != nil {
			return nothing, ctx.Err()
		}
		if err != nil {
			one.park(err)
		}
		most = max(most, got)
	}
	return most, nil
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
	return errors.Join(append(errs, f.ledger.close())...)
}

// isRotated reports whether path, judging by its name, is a rotated file of another known path. The source reads a
// rotated file, when necessary, as a part of the other path.
func isRotated[V any](path string, known map[string]V) bool {
	packed := packing().FindString(path)
	dir, name := filepath.Split(strings.TrimSuffix(path, packed))
	ext := filepath.Ext(name)
	for _, base := range []string{
		rotatedName().ReplaceAllString(name, ""),
		rotatedDate().ReplaceAllString(strings.TrimSuffix(name, ext), "") + ext,
		name, // compressed
	} {
		for _, original := range []string{dir + base, dir + base + packed} {
			if _, ok := known[original]; ok && original != path {
				return true
			}
		}
	}
	return false
}
