package file

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// archive compresses rotated files and removes the oldest ones in the background. After a failure or an interruption it
// tries again with the next rotated file, and when the destination is opened.
type archive struct {
	settings rotateSettings
	zstd     Zstd
	log      *slog.Logger
	checkIn  func(dir *os.File, name string) error

	ctx     context.Context // ends with stop
	stop    context.CancelFunc
	one     sync.Mutex // held while files are compressed or removed
	running sync.WaitGroup
}

func newArchive(s rotateSettings, z Zstd, log *slog.Logger, checkIn func(*os.File, string) error) *archive {
	a := &archive{settings: s, zstd: z, log: log, checkIn: checkIn}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// tidy compresses and removes the rotated files of the file at path, in the background.
func (a *archive) tidy(path string) {
	if a.settings.Compression == "none" && a.settings.Keep == 0 {
		return
	}
	a.running.Go(func() {
		a.one.Lock()
		defer a.one.Unlock()
		if err := a.work(path); err != nil && a.ctx.Err() == nil {
			a.log.Warn("cannot tidy up rotated files, trying again with the next one", "path", path, "err", err)
		}
	})
}

// close interrupts the current work and waits for its end.
func (a *archive) close() {
	a.stop()
	a.running.Wait()
}

// inDirectory opens the directory of a file and calls do with it.
func inDirectory(path string, do func(root *os.Root, dir *os.File) error) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return do(root, dir)
}

func (a *archive) work(path string) error {
	return inDirectory(path, func(root *os.Root, dir *os.File) error { return a.workIn(root, dir, path) })
}

func (a *archive) workIn(root *os.Root, dir *os.File, path string) error {
	if err := a.checkIn(dir, filepath.Base(path)); err != nil {
		return err
	}
	names, err := rotatedNames(dir, filepath.Base(path))
	if err != nil {
		return err
	}
	var errs []error
	if n := len(names) - a.settings.Keep; a.settings.Keep > 0 && n > 0 {
		for _, name := range names[:n] {
			errs = append(errs, root.Remove(name))
		}
		names = names[n:]
	}
	for _, name := range names {
		if a.settings.Compression != "none" && !packing().MatchString(name) {
			errs = append(errs, a.compress(root, dir, name))
		}
	}
	return errors.Join(errs...)
}

// rotatedNames returns the names of the rotated files of base, oldest first.
func rotatedNames(dir *os.File, base string) (names []string, err error) {
	entries, err := dir.ReadDir(-1)
	for _, e := range entries {
		if e.Type().IsRegular() && isRotatedName(base, e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// compress replaces a file by a compressed copy. At every moment one complete file exists: the copy has a temporary
// name until it is durable, and the original is removed after that.
func (a *archive) compress(root *os.Root, dir *os.File, name string) error {
	to := name + map[string]string{"gzip": ".gz", "zstd": ".zst"}[a.settings.Compression]
	temporary := "." + to + ".tmp"
	err := a.copy(root, temporary, name)
	if err == nil {
		err = root.Rename(temporary, to)
	}
	if err != nil {
		_ = root.Remove(temporary)
		return fmt.Errorf("cannot compress %s: %w", name, err)
	}
	if err := sdk.SyncFile(dir); err != nil {
		return err
	}
	return root.Remove(name)
}

// copy makes a durable compressed copy. The copy keeps the modification time, since readers order files by it.
func (a *archive) copy(root *os.Root, to, from string) error {
	in, err := root.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	err = a.pack(out, interruptible{a.ctx, in})
	if err == nil {
		err = sdk.SyncFile(out)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return root.Chtimes(to, info.ModTime(), info.ModTime())
}

func (a *archive) pack(out io.Writer, in io.Reader) error {
	var w io.WriteCloser = gzip.NewWriter(out)
	if a.settings.Compression == "zstd" {
		var err error
		if w, err = a.zstd.NewWriter(out); err != nil {
			return err
		}
	}
	_, err := io.Copy(w, in)
	return errors.Join(err, w.Close())
}

// interruptible reads until ctx ends.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read reads from r unless ctx has ended.
func (i interruptible) Read(b []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(b)
}
