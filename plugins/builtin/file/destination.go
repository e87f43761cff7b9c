package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	writeBytes      = 1 << 20 // what is written at once at least, when a batch is large
	keepBytes       = 4 << 20 // largest buffer that is kept for the next Write
	compareInterval = time.Second
)

type destinationSettings struct {
	rotateSettings

	Path  string `json:"path" validate:"required" desc:"Path of the file to append to. It is created if it does not exist; its directory must exist."`
	Fsync bool   `json:"fsync" default:"true" desc:"Whether records are on the disk, safe from a power cut, before they are acknowledged. What is no file, such as a pipe or a terminal, needs none."`
}

// Destination appends every record to a file, in the record format of the connector
// and followed by a newline. It survives that the file is renamed or removed.
type Destination struct {
	sdk.DestinationBase

	check    func(*os.File) error                  // returns why an open file may not be written
	checkIn  func(dir *os.File, name string) error // returns why a file may not be created in an open directory
	settings destinationSettings
	file     *os.File
	info     os.FileInfo // of file, when it was opened
	size     int64       // of file, unless others write to it too
	torn     bool        // the file ends in the middle of a line
	compared time.Time   // when the path was last compared with file
	buf      []byte      // from buffers, during Write
	archive  *archive    // one of its own for every Open
	wrote    time.Time   // when file was last written to
	durable  *durable    // what syncs file; one of its own for every Open
	defers   func(sdk.Syncer)
}

// buffers are shared by all destinations: most of many write nothing at a time.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Parameters describes the settings.
func (d *Destination) Parameters() sdk.Parameters { return sdk.ParametersOf(destinationSettings{}) }

// Configure checks and keeps the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) error {
	d.settings = destinationSettings{}
	if err := sdk.Decode(values, &d.settings); err != nil {
		return err
	}
	if err := d.settings.check(); err != nil {
		return err
	}
	return sdk.CheckPath(ctx, "path", d.settings.Path)
}

// Open opens the file, creating it if need be.
func (d *Destination) Open(ctx context.Context) error {
	d.durable, d.defers = &durable{}, sdk.EnvFrom(ctx).Defer
	d.check = func(f *os.File) error { return sdk.CheckOpen(ctx, "path", f) }
	d.checkIn = func(dir *os.File, name string) error { return sdk.CheckCreate(ctx, "path", dir, name) }
	d.archive = newArchive(d.settings.rotateSettings, sdk.Logger(ctx), d.checkIn)
	if err := d.open(); err != nil {
		return err
	}
	return d.tidy()
}

// Write appends the records. Only one that cannot be encoded is refused. When it fails, it
// takes back the part of a record or batch that was written, so that repeating it repeats
// nothing in the file.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	if err := d.follow(); err != nil {
		return 0, sdk.Unavailable(err)
	}
	format := sdk.RecordFormat(ctx)
	written := 0
	buf := buffers.Get().(*[]byte)
	d.buf = *buf
	defer func() {
		if *buf, d.buf = d.buf, nil; cap(*buf) <= keepBytes {
			buffers.Put(buf)
		}
	}()
	d.start()
	for i := range records {
		buf, err := format(d.buf, &records[i])
		if err != nil {
			return d.fail(written, i, fmt.Errorf("cannot encode the record: %w", err))
		}
		d.buf = append(buf, '\n')
		if len(d.buf) < d.settings.most() && i < len(records)-1 {
			continue
		}
		if err := d.flush(); err != nil {
			return written, sdk.Unavailable(err)
		}
		written = i + 1
		d.start()
	}
	return written, nil
}

// fail writes the records before i, which cannot be encoded because of err.
func (d *Destination) fail(written, i int, err error) (int, error) {
	if i > written {
		if failed := d.flush(); failed != nil {
			return written, sdk.Unavailable(failed)
		}
	}
	return i, err
}

// start empties the buffer, except for the newline that is to end a torn line.
func (d *Destination) start() { d.buf = append(d.buf[:0], '\n') }

// flush writes the buffer, all of it or nothing. When the file has no name any more,
// what was written there would never be read, so it is written again under the path.
func (d *Destination) flush() error {
	if err := d.rotate(time.Now()); err != nil {
		return err
	}
	for {
		if err := d.writeBuffer(); err != nil {
			return err
		}
		if gone, err := d.isGone(); err != nil || !gone {
			return err
		}
		if err := d.reopen(); err != nil {
			return err
		}
	}
}

func (d *Destination) writeBuffer() error {
	text := d.buf
	if !d.torn {
		text = text[1:]
	}
	n, err := d.file.Write(text)
	if err == nil && d.settings.Fsync {
		err = d.durable.wrote(d.defers)
	}
	if err != nil {
		d.takeBack(n)
		return fmt.Errorf("cannot write to %s: %w", d.settings.Path, err)
	}
	d.size += int64(n)
	d.torn = false
	return nil
}

// isGone reports whether the file was removed.
func (d *Destination) isGone() (bool, error) {
	if !d.info.Mode().IsRegular() {
		return false, nil
	}
	n, err := links(d.file)
	if err != nil {
		return false, fmt.Errorf("cannot examine the file to write to: %w", err)
	}
	if n > 0 {
		return false, nil
	}
	return d.isMoved() // some file systems count no links
}

// takeBack removes the last n bytes from the file, unless another process wrote to it.
func (d *Destination) takeBack(n int) {
	if n == 0 {
		return
	}
	info, err := d.file.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() == d.size+int64(n) && d.file.Truncate(d.size) == nil {
		return
	}
	d.torn = true
	d.size += int64(n)
}

// follow opens the path again when the file was moved away from it.
func (d *Destination) follow() error {
	if d.file == nil {
		return d.open()
	}
	if time.Since(d.compared) < compareInterval {
		return nil
	}
	d.compared = time.Now()
	if moved, err := d.isMoved(); err != nil || !moved {
		return err
	}
	return d.reopen()
}

// isMoved reports whether the path leads to another file than the open one, or to none.
func (d *Destination) isMoved() (bool, error) {
	same, err := leadsTo(d.settings.Path, d.info)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("cannot examine the file to write to: %w", err)
	}
	return !same, nil
}

func (d *Destination) reopen() error {
	if err := d.close(); err != nil {
		return err
	}
	return d.open()
}

func (d *Destination) open() error {
	path := d.settings.Path
	// Opening a pipe without a reader fails rather than waits.
	f, err := d.openOrCreate(path)
	if err != nil {
		return explain(path, err)
	}
	err = d.check(f)
	if err == nil {
		err = d.use(f)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("cannot open the file to write to: %w", err)
	}
	return nil
}

// openOrCreate opens a file for writing. One that is missing is created in a directory that was
// opened and checked, where no link leads elsewhere, whatever is put in the way meanwhile.
func (d *Destination) openOrCreate(path string) (*os.File, error) {
	const flags, maxLinks = os.O_WRONLY | os.O_APPEND | syscall.O_NONBLOCK, 40
	for range maxLinks {
		f, err := os.OpenFile(path, flags, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if target, err := os.Readlink(path); err == nil { // what it leads to is missing
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
		f, err = d.createIn(root, filepath.Base(path), flags)
		err = errors.Join(err, root.Close())
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, errors.New("too many links, or files that come and go")
}

// createIn creates a file in a directory, if it may be written there.
func (d *Destination) createIn(root *os.Root, name string, flags int) (*os.File, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := d.checkIn(dir, name); err != nil {
		return nil, err
	}
	return root.OpenFile(name, flags|os.O_CREATE|os.O_EXCL, 0o644)
}

// use makes f the file to write to.
func (d *Destination) use(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	torn, err := isTorn(f.Name(), info)
	if err != nil {
		return err
	}
	if d.settings.Fsync {
		if err := d.durable.use(f, info); err != nil {
			return err
		}
	}
	d.file, d.info, d.size, d.torn, d.compared = f, info, info.Size(), torn, time.Now()
	d.wrote = info.ModTime()
	return nil
}

// Teardown closes the file.
func (d *Destination) Teardown(context.Context) error {
	if d.archive != nil {
		d.archive.close()
	}
	return d.close()
}

func (d *Destination) close() error {
	if d.file == nil {
		return nil
	}
	err := errors.Join(d.durable.use(nil, nil), d.file.Close())
	d.file = nil
	if err != nil {
		return fmt.Errorf("cannot close %s: %w", d.settings.Path, err)
	}
	return nil
}

// explain says what is in the way of opening path.
func explain(path string, err error) error {
	dir := filepath.Dir(path)
	if _, missing := os.Stat(dir); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("cannot open the file to write to: the directory %s does not exist: %w", dir, err)
	}
	return fmt.Errorf("cannot open the file to write to: %w", err)
}

// isTorn reports whether the file ends in the middle of a line, as it does after its
// writer was killed.
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
