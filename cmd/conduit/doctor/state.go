package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/maintenance"
)

// state checks the store, what may read it, and the disk under it.
func (e *examination) state(ctx context.Context) {
	path := e.config.DB.SQLite.Path
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		e.add("store", OK, "", "%s is made by the first run", path)
	case err != nil:
		e.add("store", Error, "let the agent's user read it", "%v", err)
	case info.Mode().Perm()&0o077 != 0:
		e.add("store", Warning, "chmod 600 "+path+": it holds settings and positions", "others can open %s (mode %o)", path, info.Mode().Perm())
		e.whole(ctx, path)
	default:
		e.whole(ctx, path)
	}
	e.disk(filepath.Dir(path))
	e.syncing(filepath.Dir(path))
	for _, file := range []string{e.config.API.Auth.AdminTokenFile, e.config.API.Auth.ReadTokenFile, e.config.API.TLS.KeyFile} {
		if info, err := os.Stat(file); file != "" && err == nil && info.Mode().Perm()&0o077 != 0 {
			e.add("permissions", Warning, "chmod 600 "+file, "others can read %s (mode %o)", file, info.Mode().Perm())
		}
	}
}

func (e *examination) whole(ctx context.Context, path string) {
	const advice = "'conduit store repair' saves what can be read; or restore a backup"
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
		e.add("store", OK, "", "%s: %d bytes, whole", one.Path, one.Bytes)
	}
}

// The room that a disk should have: below the first it is an error, below the second a warning.
const (
	noRoom     = 16 << 20
	littleRoom = 256 << 20
)

func (e *examination) disk(dir string) {
	free, kind, err := freeSpace(dir)
	if err != nil {
		e.add("disk", Unknown, "", "%v", err)
		return
	}
	const advice = "make room: when the disk is full pipelines wait, and nothing is lost"
	level := OK
	switch {
	case free < noRoom:
		level = Error
	case free < littleRoom:
		level = Warning
	}
	e.add("disk", level, advice, "%d MiB free at %s (%s)", free>>20, dir, kind)
	switch kind {
	case "tmpfs", "ramfs":
		e.add("disk", Warning, "set db.sqlite.path to a disk", "%s is in memory: positions do not survive a restart of the machine", dir)
	case "nfs", "smb", "cifs", "9p":
		e.add("disk", Warning, "set db.sqlite.path to a local disk", "%s is on a network: locks and fsync are only as good as its server", dir)
	}
}

// slowSync is how long an fsync may take before it bounds what pipelines can do.
const slowSync = 100 * time.Millisecond

// syncing measures what bounds every checkpoint: writing some KiB and an fsync.
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
	e.add("fsync", level, "a slow disk makes acknowledgements late; db.commit-interval gathers more of them in one",
		"%s, at most %s", median.Round(10*time.Microsecond), longest.Round(10*time.Microsecond))
}

// syncTimes returns how long it took n times to write a block of a file in dir, and sync it.
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
