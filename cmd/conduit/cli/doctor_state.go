package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/maintenance"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// state checks the store and the disk under it.
func (e *examination) state(ctx context.Context) {
	path := e.config.DB.SQLite.Path
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		e.add("store", OK, "", "%s is created by the first run", absolute(path))
	case err != nil:
		e.add("store", Error, "give the agent's user read access", "%v", err)
	case info.Mode().Perm()&0o077 != 0:
		e.add("store", Warning, "chmod 600 "+path+": it holds settings and positions", "others can open %s (mode %o)",
			path, info.Mode().Perm())
		e.whole(ctx, path)
	default:
		e.whole(ctx, path)
	}
	e.fileSystem(path)
	e.disk(filepath.Dir(path))
	e.syncing(filepath.Dir(path))
}

// permissions checks that the files with secrets that the settings name are there, and that no other user can read
// them.
func (e *examination) permissions() {
	before := len(e.findings)
	files := e.config.OfSecrecy(config.SecretFile)
	for _, key := range slices.Sorted(maps.Keys(files)) {
		file := files[key]
		switch info, err := os.Stat(file); {
		case errors.Is(err, fs.ErrNotExist) && filepath.Base(file) == file && e.config.File == e.ServiceFile:
			e.add("permissions", Unknown, "", "%s in %s may be a systemd credential, which only the service can read",
				file, key)
		case errors.Is(err, fs.ErrPermission): // a file of another user, possibly the agent's
			e.add("permissions", Unknown, "", "%v", err)
		case err != nil:
			e.add("permissions", Error, "correct "+key+", or create the file", "%v", err)
		case info.Mode().Perm()&0o077 != 0:
			e.add("permissions", Warning, "chmod 600 "+file, "others can read %s (mode %o)", file, info.Mode().Perm())
		}
	}
	if len(e.findings) == before {
		e.add("permissions", OK, "", "only the agent should read tokens and keys")
	}
}

func (e *examination) whole(ctx context.Context, path string) {
	const advice = "run 'conduit store repair' to keep readable rows, or restore a backup"
	all, err := maintenance.Check(ctx, path)
	if err != nil {
		e.add("store", Error, advice, "%v", err)
		return
	}
	for _, one := range all {
		if len(one.Found) > 0 {
			e.add("store", Error, advice, "%s: %s", one.Path, strings.Join(one.Found, "; "))
			continue
		}
		e.add("store", OK, "", "%s: %d bytes, intact", one.Path, one.Bytes)
	}
}

// The space that a disk should have: less than the first is an error, less than the second a warning.
const (
	noRoom       = 16 << 20
	littleRoom   = 256 << 20
	noInodes     = 16
	littleInodes = 1024
)

func (e *examination) disk(dir string) {
	free, inodes, err := freeSpace(dir)
	if err != nil {
		e.add("disk", Unknown, "", "%v", err)
		return
	}
	const advice = "free disk space: on a full disk pipelines wait, and nothing is lost"
	e.add("disk", roomLevel(free, noRoom, littleRoom), advice, "%d MiB free at %s", free>>20, dir)
	if inodes < 0 {
		e.add("inodes", OK, "", "the file system at %s has no inode limit", dir)
		return
	}
	e.add("inodes", roomLevel(inodes, noInodes, littleInodes),
		"remove files: without free inodes no file can be created, as on a full disk", "%d free at %s", inodes, dir)
}

func roomLevel(free, none, little int64) Level {
	switch {
	case free < none:
		return Error
	case free < little:
		return Warning
	}
	return OK
}

// fileSystem checks that locks and fsync are reliable on the file system of the store.
func (e *examination) fileSystem(path string) {
	dir := filepath.Dir(path)
	kind, _ := sqlitefile.FileSystem(dir)
	switch err := sqlitefile.CheckNetwork(path); {
	case err != nil && !e.config.DB.SQLite.NetworkFileSystem:
		e.add("file system", Error, "set db.sqlite.path to a local disk", "%v", err)
	case err != nil:
		e.add("file system", Warning, "set db.sqlite.path to a local disk",
			"%s is on %s: locks and fsync depend on its server", dir, kind)
	case kind == "tmpfs" || kind == "ramfs":
		e.add("file system", Warning, "set db.sqlite.path to a disk",
			"%s is in memory (%s): positions do not survive a restart of the machine", dir, kind)
	default:
		e.add("file system", OK, "", "%s is local (%s)", dir, cmp.Or(kind, "unknown file system"))
	}
}

// slowSync is the duration from which an fsync limits the throughput of pipelines.
const slowSync = 100 * time.Millisecond

// syncing measures the lower bound of every checkpoint: writing some KiB and an fsync.
func (e *examination) syncing(dir string) {
	times, err := syncTimes(dir, 9)
	if err != nil {
		e.add("fsync", Unknown, "", "%v", err)
		return
	}
	slices.Sort(times)
	median, longest := times[len(times)/2], times[len(times)-1]
	level := OK
	if median > slowSync {
		level = Warning
	}
	e.add("fsync", level, "a slow disk delays acknowledgements; a longer db.commit-interval groups more positions "+
		"into one commit",
		"%s, at most %s", median.Round(10*time.Microsecond), longest.Round(10*time.Microsecond))
}

// syncTimes writes a block of a file in dir and syncs it n times, and returns the durations.
func syncTimes(dir string, n int) (times []time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".conduit-doctor-")
	if err != nil {
		return nil, fmt.Errorf("cannot measure fsync: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for range n {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return nil, fmt.Errorf("cannot measure fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("cannot measure fsync: %w", err)
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}
