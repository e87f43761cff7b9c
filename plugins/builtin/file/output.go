package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

const compareInterval = time.Second

// outputs is the state shared by the files of a destination.
type outputs struct {
	settings destinationSettings
	check    func(*os.File) error                  // returns an error if an open file may not be written
	checkIn  func(dir *os.File, name string) error // returns an error if a file may not be created in an open directory
	archive  *archive                              // new for every Open
	defers   func(sdk.Syncer)
	header   []byte    // line at the beginning of each file, without a line break; nil: none
	packer   *packer   // nil: files are not compressed
	hour     time.Time // in which files were created
	created  int       // files of the template created in that hour
}

var errHourly = errors.New("the records of this hour have as many paths already as filesPerHour allows; raise it, or " +
	"use fewer paths")

// mayCreate counts a file that a template creates. It returns an error if there are too many.
func (o *outputs) mayCreate() error {
	if now := time.Now().Truncate(time.Hour); !now.Equal(o.hour) {
		o.hour, o.created = now, 0
	}
	if o.created >= o.settings.PerHour {
		return errHourly
	}
	o.created++
	return nil
}

// output is a file of a destination. It handles renaming and removal of the file by other processes.
type output struct {
	*outputs
	path  string
	below string // directory that the file is confined to; empty for a fixed path

	file     *os.File
	info     os.FileInfo // of file when it was opened
	size     int64       // of file, unless others write to it too
	torn     bool        // the file ends in the middle of a line
	compared time.Time   // last comparison of the path with file
	buf      []byte      // the next lines; nil: none
	wrote    time.Time   // last write to file, also before it was opened
	used     time.Time   // time of opening, or the start of the last flush
	durable  *durable    // syncs file

	before  int64 // size before the last flush
	wasTorn bool  // torn before the last flush
}

func newOutput(all *outputs, path, below string) *output {
	return &output{outputs: all, path: path, below: below, durable: &durable{}}
}

// start allocates the buffer.
func (o *output) start() { o.buf = (*buffers.Get().(*[]byte))[:0] }

// release releases the buffer.
func (o *output) release() {
	if buf := o.buf; buf != nil && cap(buf) <= keepBytes {
		buffers.Put(&buf)
	}
	o.buf = nil
}

// flush writes the whole buffer or nothing.
func (o *output) flush() error { return o.write(o.buf) }

// write writes all lines or nothing. If the file was removed, nobody can read it, so write writes the lines again to a
// new file at the path.
func (o *output) write(lines []byte) error {
	o.used = time.Now()
	if o.packer != nil {
		var err error
		if lines, err = o.packer.pack(lines); err == nil && o.torn { // reopening cuts off the incomplete member
			err = o.reopen()
		}
		if err != nil {
			return err
		}
	}
	if err := o.rotate(o.used, int64(len(lines))+1); err != nil {
		return err
	}
	for {
		if err := o.append(lines); err != nil {
			return err
		}
		if gone, err := o.isGone(); err != nil || !gone {
			return err
		}
		if err := o.reopen(); err != nil {
			return err
		}
	}
}

func (o *output) append(text []byte) error {
	text, err := o.withHeader(text)
	if err != nil {
		return err
	}
	if o.torn {
		text = append([]byte{'\n'}, text...)
	}
	o.before, o.wasTorn = o.size, o.torn
	n, err := o.file.Write(text)
	if err == nil && o.settings.Fsync {
		err = o.durable.wrote(o.defers)
	}
	if err != nil {
		o.takeBack(n)
		return fmt.Errorf("cannot write to %s: %w", o.path, err)
	}
	o.size += int64(n)
	o.torn = false
	return nil
}

// withHeader returns text with the header before it if the file is empty.
func (o *output) withHeader(text []byte) ([]byte, error) {
	if len(o.header) == 0 || o.size > 0 {
		return text, nil
	}
	header := append(slices.Clone(o.header), '\n')
	if o.packer != nil {
		text = slices.Clone(text) // the packer reuses its memory
		var err error
		if header, err = o.packer.pack(header); err != nil {
			return nil, err
		}
	}
	return slices.Concat(header, text), nil
}

// isGone reports whether the file was removed.
func (o *output) isGone() (bool, error) {
	if !o.info.Mode().IsRegular() {
		return false, nil
	}
	n, err := links(o.file)
	if err != nil {
		return false, fmt.Errorf("cannot examine the file to write to: %w", err)
	}
	if n > 0 {
		return false, nil
	}
	return o.isMoved() // some file systems do not count links
}

// takeBack removes the last n bytes from the file, unless another process has written to it.
func (o *output) takeBack(n int) {
	if n == 0 {
		return
	}
	info, err := o.file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() == o.size+int64(n) && o.file.Truncate(o.size) == nil {
		return
	}
	o.torn = true
	o.size += int64(n)
}

// undo removes the bytes of the last flush, unless another process has written to the file since.
func (o *output) undo() {
	info, err := o.file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() == o.size && o.file.Truncate(o.before) == nil {
		o.size, o.torn = o.before, o.wasTorn
	}
}

// follow reopens the path when the file was moved away from it.
func (o *output) follow() error {
	if o.file == nil {
		return o.open()
	}
	if time.Since(o.compared) < compareInterval {
		return nil
	}
	o.compared = time.Now()
	if moved, err := o.isMoved(); err != nil || !moved {
		return err
	}
	return o.reopen()
}

// isMoved reports whether the path leads to a file other than the open one, or to none.
func (o *output) isMoved() (bool, error) {
	same, err := leadsTo(o.path, o.info)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot examine the file to write to: %w", err)
	}
	return !same, nil
}

func (o *output) reopen() error {
	if err := o.close(); err != nil {
		return err
	}
	return o.open()
}

func (o *output) open() error {
	f, err := o.openOrCreate()
	if err != nil {
		return explain(o.path, err)
	}
	err = o.check(f)
	if err == nil {
		err = o.use(f)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("cannot open the file to write to: %w", err)
	}
	return nil
}

// With O_NONBLOCK, opening a pipe without a reader fails instead of blocking.
const openFlags = os.O_WRONLY | os.O_APPEND | syscall.O_NONBLOCK

// openOrCreate opens a file for writing. It creates a missing file in a directory that is open and checked, so that a
// link that appears meanwhile cannot redirect it.
func (o *output) openOrCreate() (*os.File, error) {
	if o.below != "" {
		return o.openBelow()
	}
	const maxLinks = 40
	path := o.path
	for range maxLinks {
		f, err := os.OpenFile(path, openFlags, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if target, err := os.Readlink(path); err == nil { // its target is missing
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			path = target
			continue
		}
		root, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		f, err = o.createIn(root, filepath.Base(path))
		err = errors.Join(err, root.Close())
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, errors.New("too many links, or files that come and go")
}

// openBelow opens a file below a directory. Links cannot lead out of the directory. It creates missing directories.
func (o *output) openBelow() (*os.File, error) {
	name, err := filepath.Rel(o.below, o.path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.below)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, openFlags, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if o.info == nil {
		if err := o.mayCreate(); err != nil {
			return nil, err
		}
	}
	dir := filepath.Dir(name)
	if err := o.makeDirectories(root, dir); err != nil {
		return nil, err
	}
	parent, err := root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	return o.createIn(parent, filepath.Base(name))
}

// makeDirectories creates dir in root, with its parents. They survive a power failure like the file.
func (o *output) makeDirectories(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := o.makeDirectories(root, parent); err != nil {
		return err
	}
	in, err := root.Open(parent)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := o.checkIn(in, filepath.Base(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) || !o.settings.Fsync {
		return err
	}
	return sdk.SyncFile(in)
}

// createIn creates a file in a directory, if it may be written there.
func (o *output) createIn(root *os.Root, name string) (*os.File, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := o.checkIn(dir, name); err != nil {
		return nil, err
	}
	return root.OpenFile(name, openFlags|os.O_CREATE|os.O_EXCL, 0o644)
}

// use makes f the current file.
func (o *output) use(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	torn := false
	if o.packer != nil {
		info, err = o.repair(f, info)
	} else {
		torn, err = isTorn(f.Name(), info)
	}
	if err != nil {
		return err
	}
	if o.settings.Fsync {
		if err := o.durable.use(f, info); err != nil {
			return err
		}
	}
	o.file, o.info, o.size, o.torn, o.compared = f, info, info.Size(), torn, time.Now()
	o.wrote, o.used = info.ModTime(), time.Now()
	return nil
}

func (o *output) close() error {
	if o.file == nil {
		return nil
	}
	err := errors.Join(o.durable.use(nil, nil), o.file.Close())
	o.file = nil
	if err != nil {
		return fmt.Errorf("cannot close %s: %w", o.path, err)
	}
	return nil
}

// explain describes why path cannot be opened.
func explain(path string, err error) error {
	dir := filepath.Dir(path)
	if _, missing := os.Stat(dir); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("cannot open the file to write to: the directory %s does not exist: %w", dir, err)
	}
	return fmt.Errorf("cannot open the file to write to: %w", err)
}

// isTorn reports whether the file ends in the middle of a line, as it does after its writer was killed.
func isTorn(path string, info os.FileInfo) (bool, error) {
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
