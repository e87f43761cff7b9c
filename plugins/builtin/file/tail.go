package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// tail follows the file at a path. When another file takes the path, it first finishes the open one, since writers may
// append to the open file until they start with the other. Then it reads the files that had the path in between, and
// the current one, each from its beginning. When the file is truncated, it finishes the copy of the old content and
// starts over.
type tail struct {
	*options
	check func(*os.File) error // returns an error if an open file may not be read; nil: all may
	path  string
	log   *slog.Logger

	lines                 // of the open file; lines.file is nil without one
	assembler *assembler  // nil: each line, or group, is a record
	start     int64       // number of the first line of the last returned group
	line      int64       // number of the last returned line
	grew      time.Time   // time of the last successful read
	gone      time.Time   // since when the path is free; zero: it is not
	inode     uint64      // inode of the open file
	written   time.Time   // last observed modification time of the open file
	size      int64       // last observed size of the open file on disk
	switches  int64       // number of earlier files or contents
	head      []byte      // beginning of the open file up to headBytes, as far as read
	last      []byte      // last bytes read from the open file, up to headBytes
	ended     bool        // nothing will be added to the open file
	atEnd     bool        // the last attempt to read the open file reached its end
	ebbed     time.Time   // when that attempt was made
	final     bool        // nothing followed in that attempt, after Finish
	previous  place       // beginning of the open file, or the same place in another form: the end of the file before it
	copied    os.FileInfo // compressed copy of the open file; nil: unknown
	skips     *progress.Skips
}

// options define how the content of files becomes records.
type options struct {
	groupBegin  *regexp.Regexp // see lines.begins
	groupWait   time.Duration  // how long lines of a group may delay others
	compression string
	zstd        Zstd
	leaveAfter  time.Duration // how long a path may be free before its last file is finished; 0: forever
	atEnds      bool          // files that there are when the source first starts are read from their ends
	exclude     []exclusion
	openFiles   int           // maximum number of open files
	csv         *csv.Reader   // parses the lines; nil: they are not CSV
	format      string        // of the lines
	partialWait time.Duration // for the end of a partial line
	held        held
	finish      atomic.Bool // the ends of the files count as complete lines
}

// next returns the next complete line. The bytes after the last newline are a line only if nothing can be added to
// them.
func (t *tail) next() ([]byte, bool) {
	for {
		line, ok := t.nextOrOmitted()
		if !ok || t.omitted.bytes == 0 {
			return line, ok
		}
		t.tooLong(t.start, t.offset-t.omitted.bytes, t.omitted.bytes)
		if t.endRecords() { // the line may have been a part of an unfinished record
			return nil, false
		}
	}
}

// isOpen reports whether a record is unfinished.
func (t *tail) isOpen() bool { return t.assembler != nil && t.assembler.isOpen() }

// endRecords reports whether records are unfinished. If so, they end as they are, before anything else is read.
func (t *tail) endRecords() bool { return t.assembler != nil && t.assembler.end() }

// ends reports whether unfinished records end now: they have waited long enough, or nothing follows.
func (t *tail) ends() bool {
	if !t.isOpen() {
		return false
	}
	return t.assembler.ending() || t.atEnd && !t.ended && (t.final && t.endRecords() || t.assembler.expire(t.ebbed))
}

// tooLong reports that a line is skipped.
func (t *tail) tooLong(number, offset, bytes int64) {
	err := fmt.Errorf("%w: it has %d bytes from offset %d on", errLineTooLong, bytes, offset)
	t.log.Warn("line too long, skipping it", "path", t.path, "line", number, "offset", offset, "bytes", bytes)
	t.skips.Add(fmt.Sprintf("line %d of %s", number, t.path), err)
}

var errLineTooLong = errors.New("the line is longer than 16 MiB")

// nextOrOmitted returns the next complete line, or nil in place of an omitted line.
func (t *tail) nextOrOmitted() ([]byte, bool) {
	if n := t.leaveHole(); n > 0 {
		t.log.Warn("skipping a hole in the file", "path", t.path, "offset", t.offset-n, "bytes", n)
	}
	if t.hole {
		return nil, false
	}
	line, ok := t.lines.next()
	if !ok && t.file != nil && (t.ended || t.file.complete() || t.atEnd && t.finish.Load()) {
		line, ok = t.lines.rest()
	} else if !ok && (len(t.buf) > 0 || t.long) && time.Since(t.grew) >= t.groupWait {
		line, ok = t.whole()
	}
	if !ok {
		return nil, false
	}
	t.start = t.line + 1
	t.line = t.start
	switch {
	case t.omitted.bytes > 0:
		t.line += t.omitted.lines - 1
	case t.begins != nil:
		t.line += int64(bytes.Count(line, []byte{'\n'}))
	}
	return line, true
}

// advance reads more content, from the next file if necessary.
func (t *tail) advance(ctx context.Context) (result, error) {
	if t.ended {
		return moreIf(t.leave())
	}
	if t.file == nil {
		return moreIf(t.open())
	}
	finish := t.finish.Load()
	replaced, err := t.observe()
	if err != nil || t.assembler != nil && t.assembler.ending() {
		return moreIf(err == nil, err)
	}
	err = t.fill(ctx)
	if t.atEnd = errors.Is(err, io.EOF); t.atEnd && t.assembler != nil {
		t.ebbed, t.final = time.Now(), finish && !replaced
	}
	switch {
	case err == nil:
		t.grew = time.Now()
		t.keepLast()
		if t.short && !replaced {
			return allRead, t.readHead()
		}
		return maybeMore, t.readHead()
	case !errors.Is(err, io.EOF):
		return nothing, fmt.Errorf("cannot read line %d of %s: %w", t.line+1, t.path, err)
	case replaced:
		t.ended = true
		return maybeMore, nil
	}
	return nothing, nil
}

func moreIf(progress bool, err error) (result, error) {
	if progress {
		return maybeMore, err
	}
	return nothing, err
}

// open opens the file at the path, if there is one.
func (t *tail) open() (bool, error) {
	f, err := t.openRegular(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, t.use(f, place{switches: t.switches})
}

// use begins to read after p in the file f.
func (t *tail) use(f *content, p place) error {
	if t.assembler != nil {
		t.assembler.resume(t.path, &p)
	}
	t.previous = place{}
	if p.offset == 0 {
		t.previous, t.previous.passed = p, [lanes]int64{}
	}
	return t.carryOn(f, p)
}

// carryOn continues after p in the file f, which has the content behind the last line.
func (t *tail) carryOn(f *content, p place) error {
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("cannot examine %s: %w", t.path, err)
	}
	t.lines = lines{file: f, offset: p.offset, before: p.before}
	if p.offset == 0 {
		t.before = window{}
	}
	if t.assembler == nil {
		t.lines.begins = t.groupBegin
	}
	t.gone = time.Time{}
	t.line, t.switches = p.line, p.switches
	t.inode, t.written, t.size = inodeOf(info), info.ModTime(), info.Size()
	t.head, t.last, t.ended, t.atEnd, t.copied = nil, nil, false, false, nil
	return t.readHead()
}

// leave continues with the file after the open one, if there is one.
func (t *tail) leave() (bool, error) {
	f, err := t.successor()
	if err != nil {
		return false, err
	}
	if f != nil && t.replacedByCopy(f) {
		t.log.Info("file was replaced by a longer copy; continuing with its new lines", "path", t.path)
		p := t.place()
		p.switches++
		t.file.Close()
		return true, t.carryOn(f, p)
	}
	if f == nil && t.endRecords() {
		return true, nil
	}
	if t.offset > 0 {
		t.previous = t.place()
	}
	if t.assembler != nil {
		t.assembler.nextFile(t.offset)
	}
	t.file.Close()
	t.lines = lines{}
	t.line, t.switches = 0, t.switches+1
	t.head, t.last, t.ended = nil, nil, false
	if f == nil {
		t.previous = place{}
		return false, nil
	}
	return true, t.carryOn(f, place{switches: t.switches})
}

// observe checks whether the open file was truncated, and reports whether another file with content has, or had, the
// path after it.
func (t *tail) observe() (replaced bool, err error) {
	under, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		if t.left() {
			return true, nil
		}
		return t.overtaken(nil)
	}
	t.gone = time.Time{}
	if err != nil {
		return false, fmt.Errorf("cannot examine the file to read: %w", err)
	}
	own, err := t.file.Stat()
	if err != nil {
		return false, fmt.Errorf("cannot examine %s: %w", t.path, err)
	}
	if !os.SameFile(own, under) {
		if under.Size() > 0 {
			return true, nil
		}
		return t.overtaken(under)
	}
	if t.cutOff(own) {
		return false, t.restart()
	}
	t.written, t.size = own.ModTime(), own.Size()
	return false, nil
}

// left reports whether the path has been free for so long that its last file is finished.
func (t *tail) left() bool {
	if t.gone.IsZero() {
		t.gone = time.Now()
	}
	return t.leaveAfter > 0 && time.Since(t.gone) >= t.leaveAfter && time.Since(t.grew) >= t.leaveAfter
}

// cutOff reports whether the read content is no longer in the open file.
func (t *tail) cutOff(info os.FileInfo) bool {
	if t.file.packed != nil {
		return t.file.packed.cutOff(info)
	}
	if info.Size() < t.end() {
		return true
	}
	var now [headBytes]byte
	differs := func(known []byte, offset int64) bool {
		_, err := t.file.ReadAt(now[:len(known)], offset)
		return err == nil && !bytes.Equal(now[:len(known)], known)
	}
	return differs(t.head, 0) || differs(t.last, t.end()-int64(len(t.last)))
}

// keepLast keeps the last bytes read. It does not keep a hole, or a line that is too long.
func (t *tail) keepLast() {
	t.last = append(t.last[:0], t.buf[max(0, len(t.buf)-headBytes):]...)
}

// replacedByCopy reports whether f has taken the path of the open file, which was removed, and begins with everything
// that was read from it, like a file that rsync copies again.
func (t *tail) replacedByCopy(f *content) bool {
	p := t.place()
	if n, err := links(t.file.File); err != nil || n > 0 || f.Name() != t.path || !p.isIn(f, false) || !p.endsLine(f) {
		return false
	}
	rotated := p.find(t.path, time.Time{}, t.openRegular)
	if rotated == nil {
		return true
	}
	rotated.Close()
	return false
}

var errCutOff = errors.New("the file was truncated before they were read, and no copy exists")

// unread reports whether the open file is known to have unread content.
func (t *tail) unread() bool {
	if t.file.packed != nil {
		return !t.atEnd
	}
	return t.size > t.offset+t.skip
}

// restart starts over with the open file, after the unread rest of a copy with the old content.
func (t *tail) restart() error {
	f, p := t.file, t.place()
	p.inode = 0
	if copied := p.find(t.path, t.written, t.openRegular); copied != nil {
		t.log.Info("file was truncated; reading the rest of its copy first", "path", t.path, "copy", copied.Name())
		f.Close()
		t.lines = lines{}
		return t.carryOn(copied, p)
	}
	if t.endRecords() { // first
		return nil
	}
	t.log.Warn("file was truncated and no copy exists: unread lines are lost; starting over", "path", t.path,
		"line", t.line+1)
	if t.unread() {
		t.skips.Add(fmt.Sprintf("lines of %s from %d on", t.path, t.line+1), errCutOff)
	}
	t.lines = lines{}
	return t.use(f, place{switches: t.switches + 1})
}

// readHead reads the beginning of the open file, as far as the content was read.
func (t *tail) readHead() error {
	known := min(headBytes, t.end())
	if int64(len(t.head)) == known {
		return nil
	}
	t.head = make([]byte, known)
	if t.file.packed != nil && t.offset+t.skip == 0 { // there, reading backwards is expensive
		copy(t.head, t.buf)
		return nil
	}
	if _, err := t.file.ReadAt(t.head, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read %s: %w", t.path, err)
	}
	if bytes.HasPrefix(t.head, []byte("\xff\xfe")) || bytes.HasPrefix(t.head, []byte("\xfe\xff")) {
		return sdk.Permanent(
			fmt.Errorf("cannot read lines from %s: its byte order mark says that it is UTF-16; convert it to "+
				"UTF-8, for example with iconv", t.path),
		)
	}
	return nil
}

// place returns the place after the last returned line.
func (t *tail) place() place {
	return place{offset: t.offset, line: t.line, inode: t.inode, head: headHash(t.head, t.offset), switches: t.switches,
		before: t.before}
}

// behind returns the number of unread bytes of the open file on disk.
func (t *tail) behind() int64 {
	if t.file == nil {
		return 0
	}
	info, err := t.file.Stat()
	if err != nil {
		return 0
	}
	if packed := t.file.packed; packed != nil {
		if t.finish.Load() && packed.ended && !packed.complete { // its end is missing
			return info.Size()
		}
		return packed.behind(info)
	}
	return max(0, info.Size()-t.offset-t.skip)
}

// openRegular opens a file for reading. It must be a regular file, and allowed.
func (t *tail) openRegular(path string) (*content, error) {
	// O_NONBLOCK: opening a pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the file to read: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is %s", describe(info.Mode()))
	}
	if err == nil && t.check != nil {
		err = t.check(f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot read lines from %s: %w", path, err)
	}
	return newContent(f, t.compression, t.zstd), nil
}

func describe(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "not a regular file"
}

func inodeOf(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
