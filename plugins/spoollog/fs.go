package spoollog

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// FS is the file system that a log uses. Every path begins with the directory of the log, which exists. The default
// implementation uses a directory of the machine; tests have an implementation that fails on purpose. An FS that is an
// io.Closer is closed with the log.
type FS interface {
	ReadDir(dir string) ([]FileInfo, error)
	// Create creates a file for writing. The file must not exist.
	Create(path string) (File, error)
	Open(path string) (File, error) // for reading
	Truncate(path string, size int64) error
	// Overwrite writes b at the given offset of a file, and syncs the file.
	Overwrite(path string, at int64, b []byte) error
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the creations, renames and removals in dir durable.
	SyncDir(dir string) error
}

// FileInfo describes one file of a directory.
type FileInfo struct {
	Name    string
	Size    int64
	ModTime time.Time
}

// File is an open file of a log.
type File interface {
	io.Writer // appends
	io.ReaderAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// fileMode is the mode of the files of a log. The files hold records, which the group may read.
const fileMode os.FileMode = 0o640

// directory implements FS with an open directory of the machine. It follows no links to other directories, even if
// another file replaces the directory's name. Only the base name of a path is significant.
type directory struct {
	root *os.Root
	path string
}

// openDirectory opens a directory.
func openDirectory(path string) (*directory, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &directory{root, filepath.Clean(path)}, nil
}

// createDirectory opens a directory, and creates it if necessary.
func createDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, err
	}
	return openDirectory(path)
}

func (d *directory) ReadDir(string) (files []FileInfo, err error) {
	dir, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := d.root.Lstat(e.Name())
		switch {
		case errors.Is(err, os.ErrNotExist): // removed in the meantime
		case err != nil:
			return nil, err
		case info.Mode().IsRegular():
			files = append(files, FileInfo{e.Name(), info.Size(), info.ModTime()})
		}
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	return files, nil
}

func (d *directory) Create(path string) (File, error) {
	return d.openFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
}

func (d *directory) Open(path string) (File, error) { return d.openFile(path, os.O_RDONLY) }

func (d *directory) openFile(path string, flags int) (File, error) {
	f, err := d.root.OpenFile(filepath.Base(path), flags, fileMode)
	if err != nil {
		return nil, err // not a File that holds a nil *os.File
	}
	return f, nil
}

func (d *directory) Truncate(path string, size int64) error {
	f, err := d.root.OpenFile(filepath.Base(path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func (d *directory) Overwrite(path string, at int64, b []byte) error {
	f, err := d.root.OpenFile(filepath.Base(path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Sync(), f.Close())
}

func (d *directory) Rename(from, to string) error {
	return d.root.Rename(filepath.Base(from), filepath.Base(to))
}

func (d *directory) Remove(path string) error { return d.root.Remove(filepath.Base(path)) }

func (d *directory) SyncDir(path string) error {
	open := d.root.Open
	if filepath.Clean(path) != d.path { // the directory that contains it
		open = os.Open
	} else {
		path = "."
	}
	dir, err := open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// tighten removes the permissions of others on the files of the log, and logs a warning if there were any.
func (d *directory) tighten(files []FileInfo, log *slog.Logger) {
	for _, f := range files {
		if _, _, ours := segmentOf(d.path, f); !ours && !isReader(f.Name) {
			continue
		}
		info, err := d.root.Lstat(f.Name)
		if err != nil || info.Mode().Perm()&^fileMode == 0 {
			continue
		}
		log := log.With("file", filepath.Join(d.path, f.Name), "mode", info.Mode().Perm().String())
		if err := d.root.Chmod(f.Name, info.Mode().Perm()&fileMode); err != nil {
			log.Warn("others may open a file of the spool, and that cannot be changed: chmod 640 it", "err", err)
			continue
		}
		log.Warn("others could open a file of the spool: its mode is at most 0640 now")
	}
}

func (d *directory) Close() error { return d.root.Close() }
