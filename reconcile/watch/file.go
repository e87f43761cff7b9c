package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// entry is a file as it was read.
type entry struct {
	file  File
	print fingerprint.Print
	// certain reports whether an equal fingerprint means equal content. It does not if the file was read so soon after
	// a change that another change could have the same time.
	certain bool
	since   time.Time // when it began to be unstable; zero when it is stable
}

var errChanging = errors.New("the file keeps changing while it is read")

// scanFile returns the content of a file. While the file is being written it returns the previous content. A nil entry
// means that there is no such file (true) or none yet (false).
func (s *scanner) scanFile(root *os.Root, dir, name string, now time.Time, reread bool) (*entry, bool) {
	prior := s.files[name]
	fi, err := root.Lstat(name)
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		s.follow(dir, name)
		if fi, err = root.Stat(name); err != nil {
			err = explainLink(dir, name, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	if err != nil {
		return unreadable(name, err), true
	}
	if err := regular(name, fi); err != nil {
		return unreadable(name, err), true
	}
	print := s.print(fi)
	if prior != nil && prior.certain && prior.print == print && !reread {
		return prior, true
	}
	data, print, err := s.readStable(root, name, fi)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, true
	case errors.Is(err, errChanging), err == nil && len(data) == 0:
		return s.unstable(prior, name, print, now, err)
	case err != nil:
		return unreadable(name, err), true
	}
	return &entry{file: File{Path: name, Data: data, Hash: hash(data)}, print: print, certain: print.Certain(now)}, true
}

// explainLink adds to err, which reports a link that leads out of dir or to a missing file, where the link leads.
func explainLink(dir, name string, err error) error {
	path := filepath.Join(dir, name)
	real, _, lost := trail(path)
	if real == dir || strings.HasPrefix(real, dir+"/") {
		return err
	}
	if lost != nil {
		target, unread := os.Readlink(path)
		if unread != nil {
			return err
		}
		real = target
	}
	return fmt.Errorf("it is a symbolic link to %s, outside of the directory: move the file here, or "+
		"link the whole directory", real)
}

// unstable decides about a file that is empty or changed while it was read. The file gets another chance: an empty one
// for the time of a debounce, a changing one for longer.
func (s *scanner) unstable(
	prior *entry, name string, print fingerprint.Print, now time.Time, err error,
) (*entry, bool) {
	since, wait := now, s.timing.debounce
	if prior != nil && !prior.since.IsZero() {
		since = prior.since
	}
	if err != nil {
		wait = s.timing.maxWait
	}
	if now.Sub(since) >= wait {
		e := &entry{file: File{Path: name, Hash: hash(nil)}, print: print, since: since}
		if err != nil {
			e = unreadable(name, err)
			e.since = since
		}
		return e, true
	}
	replaced := prior != nil && prior.print.ID != print.ID // the previous file has no name any more
	if prior == nil || prior.placeholder() || replaced && err == nil {
		s.files[name] = &entry{since: since}
		return nil, false
	}
	keep := *prior
	keep.since, keep.certain = since, false
	return &keep, true
}

// placeholder reports whether e only records since when a new file is unstable.
func (e *entry) placeholder() bool { return e.file.Path == "" }

// follow watches the places that a linked file depends on.
func (s *scanner) follow(dir, name string) {
	real, links, err := trail(filepath.Join(dir, name))
	if err == nil {
		s.targets[real] = true
		real = filepath.Dir(real)
	}
	places := []string{real}
	for _, link := range links {
		places = append(places, filepath.Dir(link))
	}
	for _, place := range places {
		if place == dir || strings.HasPrefix(place, dir+"/") {
			s.watch(place)
		}
	}
}

// readStable reads a regular file, and succeeds if its fingerprint is the same before and after.
func (s *scanner) readStable(root *os.Root, name string, fi fs.FileInfo) ([]byte, fingerprint.Print, error) {
	f, before, err := openRegular(name, fi, root.OpenFile)
	if err != nil {
		return nil, fingerprint.Print{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fingerprint.Print{}, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, fingerprint.Print{}, err
	}
	print := s.print(after)
	if s.print(before) != print || int64(len(data)) != after.Size() {
		return nil, print, errChanging
	}
	return data, print, nil
}

// Opener opens a file by its name: os.OpenFile, or OpenFile of an os.Root.
type Opener func(name string, flag int, perm fs.FileMode) (*os.File, error)

// ReadFile reads the file that fi describes, if it is a regular file of at most MaxSize bytes. It does not wait for a
// writer of a FIFO.
func ReadFile(name string, fi fs.FileInfo, open Opener) ([]byte, error) {
	f, _, err := openRegular(name, fi, open)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		return nil, errTooLarge
	}
	return data, err
}

// ReadNamed reads a file that a person names. A file whose name ends like a pipeline file must meet the rules of a
// scan, except that it may be a link to anywhere. Any other file, such as /dev/stdin, is read to its end.
func ReadNamed(path string) ([]byte, error) {
	if !isYAML(path) {
		return os.ReadFile(path)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, fi); err != nil {
		return nil, err
	}
	return ReadFile(path, fi, os.OpenFile)
}

// regular returns an error with a remedy if something other than a regular file has the name of a pipeline file.
func regular(name string, fi fs.FileInfo) error {
	if err := readable(fi); err != nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("%w: a pipeline file must be a regular file directly in the directory; move it, or give it "+
			"a name that does not end in %s", err, filepath.Ext(name))
	}
	return nil
}

// openRegular opens the file that fi describes, if it is a regular file, and describes the opened file.
func openRegular(name string, fi fs.FileInfo, open Opener) (*os.File, fs.FileInfo, error) {
	if err := readable(fi); err != nil {
		return nil, nil, err
	}
	// If a FIFO takes the file's place now, opening it must not block.
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	now, err := f.Stat()
	if err == nil {
		err = readable(now)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, now, nil
}

var errTooLarge = fmt.Errorf("it is larger than %d MiB", MaxSize>>20)

func readable(fi fs.FileInfo) error {
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("it is not a regular file but %s", special(fi.Mode()))
	}
	if fi.Size() > MaxSize {
		return errTooLarge
	}
	return nil
}

func special(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDir:
		return "a directory"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}

func unreadable(name string, err error) *entry {
	if errors.Is(err, syscall.ELOOP) {
		err = fmt.Errorf("%w: it is a symbolic link that points to itself; remove it, or point it to a file", err)
	}
	return &entry{file: File{Path: name, Err: err}}
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
