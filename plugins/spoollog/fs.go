package spoollog

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// FS are the file operations of a log. Every path begins with the directory of the log.
// OS is the implementation for real files; tests have one that fails on purpose.
type FS interface {
	MkdirAll(dir string) error
	ReadDir(dir string) ([]FileInfo, error)
	// Create makes a file for writing that must not exist.
	Create(path string) (File, error)
	Open(path string) (File, error) // for reading
	Truncate(path string, size int64) error
	// Overwrite writes b at an offset of a file, and syncs it.
	Overwrite(path string, at int64, b []byte) error
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes what was created, renamed and removed in dir survive a power cut.
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

// OS are the files of the machine.
type OS struct{}

// MkdirAll implements FS.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o750) }

// ReadDir implements FS.
func (OS) ReadDir(dir string) ([]FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make([]FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, os.ErrNotExist): // removed meanwhile
		case err != nil:
			return nil, err
		case info.Mode().IsRegular():
			files = append(files, FileInfo{e.Name(), info.Size(), info.ModTime()})
		}
	}
	return files, nil
}

// Create implements FS.
func (OS) Create(path string) (File, error) {
	return openFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
}

// Open implements FS.
func (OS) Open(path string) (File, error) { return openFile(path, os.O_RDONLY) }

func openFile(path string, flags int) (File, error) {
	f, err := os.OpenFile(filepath.Clean(path), flags, 0o640)
	if err != nil {
		return nil, err // not a File that holds a nil *os.File
	}
	return f, nil
}

// Truncate implements FS.
func (OS) Truncate(path string, size int64) error { return os.Truncate(path, size) }

// Overwrite implements FS.
func (OS) Overwrite(path string, at int64, b []byte) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Sync(), f.Close())
}

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(path string) error { return os.Remove(path) }

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
