package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// scanner scans the directory and keeps the result, to read only files that changed. It is owned by Watcher.Run.
type scanner struct {
	dir    string
	log    *slog.Logger
	timing timing

	files map[string]*entry // by name

	system
	hints
	targets map[string]bool // targets of links
}

func newScanner(w *Watcher) *scanner {
	log := logger(w.Log)
	s := &scanner{dir: w.Dir, log: log, timing: w.timing(), files: map[string]*entry{}, system: w.system}
	switch {
	case w.PollOnly:
		s.hints = newHints(func() (*fsnotify.Watcher, error) { return nil, errPollOnly }, log)
	case w.system.notify != nil:
		s.hints = newHints(w.system.notify, log)
	default:
		s.hints = newHints(fsnotify.NewWatcher, log)
	}
	if s.print == nil {
		s.print = fingerprint.Of
	}
	if s.remote == nil {
		s.remote = remote
	}
	return s
}

var errPollOnly = errors.New("file system events are disabled")

// scan scans everything. It returns false while a file that was never read before is being written: the snapshot would
// be incomplete.
func (s *scanner) scan(now time.Time, reread bool) (Snapshot, bool) {
	s.begin()
	s.targets = map[string]bool{}
	defer s.end()
	real, err := s.locate()
	if err != nil {
		return Snapshot{Err: fmt.Errorf("cannot find pipelines in %s: %w", s.dir, err)}, true
	}
	only := ""
	if fi, err := os.Stat(real); err == nil && !fi.IsDir() {
		if !fi.Mode().IsRegular() { // opening a FIFO would wait for a writer
			return Snapshot{Err: fmt.Errorf("cannot read the pipelines in %s: %w", s.dir, readable(fi))}, true
		}
		real, only = filepath.Dir(real), filepath.Base(real)
		s.watch(real)
	}
	snap, stable, err := s.read(real, only, now, reread)
	if err != nil {
		return Snapshot{Err: fmt.Errorf("cannot read the pipelines in %s: %w", s.dir, err)}, true
	}
	return snap, stable
}

// locate returns the real path of the directory. It watches the directory, every place on the way where a link may be
// changed, and the existing part of a missing path.
func (s *scanner) locate() (string, error) {
	for {
		real, links, err := trail(s.dir)
		added := s.watch(real)
		for _, link := range links {
			added = s.watch(filepath.Dir(link)) || added
		}
		if !added {
			return real, err
		}
		// Something may have changed before the new watches were in place.
	}
}

func (s *scanner) read(dir, only string, now time.Time, reread bool) (Snapshot, bool, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Snapshot{}, false, err
	}
	defer root.Close()
	self, err := root.Stat(".")
	if err != nil {
		return Snapshot{}, false, err
	}
	names, err := s.names(root, only)
	if err != nil {
		return Snapshot{}, false, err
	}
	snap, stable := Snapshot{Dir: fingerprint.Identify(self).String()}, true
	var others []string // new files
	seen := make(map[string]*entry, len(names))
	snap.Files = make([]File, 0, len(names))
	for _, name := range names {
		e, ok := s.scanFile(root, dir, name, now, reread)
		if e == nil {
			stable = stable && ok
			continue
		}
		if before := s.files[name]; before == nil || before.print.ID != e.print.ID {
			others = append(others, name)
		}
		seen[name] = e
		snap.Files = append(snap.Files, e.file)
	}
	if stable {
		s.files = seen
	} else {
		for name, e := range seen {
			s.files[name] = e
		}
	}
	s.warnOfMounts(dir, others)
	return snap, stable, nil
}

// warnOfMounts warns of files that are mounts themselves. Such a mount keeps showing the file that existed when the
// mount was made.
func (s *scanner) warnOfMounts(dir string, names []string) {
	if len(names) == 0 {
		return
	}
	at := mounts(dir)
	for _, name := range names {
		if path := filepath.Join(dir, name); at[path] {
			s.log.Warn("pipeline file is a mount point itself, so most changes outside the mount are not "+
				"seen; mount the directory instead", "file", path)
		}
	}
}

// names lists the pipeline files. Listing a directory while its names change may miss a file that exists all the time,
// so known files are opened by name.
func (s *scanner) names(root *os.Root, only string) ([]string, error) {
	if only != "" {
		return []string{only}, nil
	}
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(name string) bool { return !IsPipelineFile(name) })
	slices.Sort(names)
	names = slices.Compact(names)
	missing := len(s.files)
	for _, name := range names {
		if s.files[name] != nil {
			missing--
		}
	}
	if missing == 0 {
		return names, nil
	}
	for name := range s.files {
		if IsPipelineFile(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// IsPipelineFile reports whether name is the name of a pipeline file, and not of an editor's temporary file or of a
// test file.
func IsPipelineFile(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.ContainsRune(name, filepath.Separator) {
		return false
	}
	return isYAML(name) && !IsTestFile(name)
}

func isYAML(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// IsTestFile reports whether name is the name of a test file, which lies next to the pipeline files: the tests of
// orders.yaml are in orders.test.yaml.
func IsTestFile(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".test.yaml") || strings.HasSuffix(name, ".test.yml")
}

// trail follows the links on the way to path. It returns the final path and the links, each under its own real path.
// With an error, real is the path as far as it was followed.
func trail(path string) (real string, found []string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	const maxLinks = 40
	real, rest := "/", strings.Split(abs, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		next := filepath.Join(real, part) // cleans "", "." and ".."
		if next == real || part == ".." {
			real = next
			continue
		}
		fi, err := os.Lstat(next)
		if err != nil {
			return real, found, err
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			if len(rest) > 0 && !fi.IsDir() {
				return real, found, &fs.PathError{Op: "open", Path: next, Err: errors.New("not a directory")}
			}
			real = next
			continue
		}
		if links++; links > maxLinks {
			return real, found, &fs.PathError{Op: "open", Path: path, Err: errors.New("too many levels of symbolic " +
				"links")}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return real, found, err
		}
		found = append(found, next)
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, found, nil
}
