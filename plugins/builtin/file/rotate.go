package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// rotateSettings define when a file is rotated, and what happens to rotated files.
type rotateSettings struct {
	// Maximum size of the file in bytes. Before a write that would exceed it, the file is renamed and a new one
	// created. 0: no limit.
	Size int64 `json:"rotate.size" default:"0" validate:"gt=-1"`
	// Rotation interval, such as 1h or 24h, aligned to UTC. The file is renamed with the first write after the
	// interval. 0: never.
	Interval time.Duration `json:"rotate.interval" default:"0s" validate:"gt=-1"`
	// Compression of rotated files.
	Compression string `json:"rotate.compression" default:"none" validate:"inclusion=none|gzip|zstd"`
	// Number of rotated files to keep. Older ones are removed. 0: all.
	Keep int `json:"rotate.keep" default:"0" validate:"gt=-1"`
}

func (s *rotateSettings) on() bool { return s.Size > 0 || s.Interval > 0 }

func (s *rotateSettings) check() error {
	switch {
	case s.on():
		return nil
	case s.Compression != "none":
		return sdk.SettingError{Setting: "rotate.compression", Message: "needs rotate.size or rotate.interval"}
	case s.Keep > 0:
		return sdk.SettingError{Setting: "rotate.keep", Message: "needs rotate.size or rotate.interval"}
	}
	return nil
}

// most returns the minimum size of a write while a batch is large.
func (s *rotateSettings) most() int {
	if s.Size > 0 {
		return int(min(s.Size, writeBytes))
	}
	return writeBytes
}

// due reports whether a file is rotated before more bytes are written to it. size is its size, written the time of the
// last write.
func (s *rotateSettings) due(size, more int64, written, now time.Time) bool {
	if size == 0 {
		return false
	}
	if s.Interval > 0 && written.UTC().Truncate(s.Interval).Before(now.UTC().Truncate(s.Interval)) {
		return true
	}
	return s.Size > 0 && size+more > s.Size
}

// rotate renames the file and begins a new one, if a rotation is due before more bytes. Written data is durable under
// either name: the file is synced before the rename, and the directory before further records are acknowledged.
func (o *output) rotate(now time.Time, more int64) error {
	if !o.settings.on() || !o.info.Mode().IsRegular() {
		return nil
	}
	written := o.wrote
	o.wrote = now
	if !o.settings.due(o.size, more, written, now) {
		return nil
	}
	if moved, err := o.isMoved(); err != nil || moved { // another process rotates it too
		return errors.Join(err, o.reopen())
	}
	if err := o.close(); err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(o.path)
	if err == nil {
		err = o.rename(path, now)
	}
	if err != nil {
		return fmt.Errorf("cannot rotate %s: %w", o.path, err)
	}
	if err := o.open(); err != nil {
		return err
	}
	return o.tidy()
}

// tidy starts the compression and removal of rotated files.
func (o *output) tidy() error {
	if !o.settings.on() || !o.info.Mode().IsRegular() {
		return nil
	}
	path, err := filepath.EvalSymlinks(o.path)
	if err != nil {
		return fmt.Errorf("cannot find out where %s leads to: %w", o.path, err)
	}
	o.archive.tidy(path)
	return nil
}

// rename gives a file the first unused name of a rotated file.
func (o *output) rename(path string, now time.Time) error {
	return inDirectory(path, func(root *os.Root, dir *os.File) error {
		for n := 0; ; n++ {
			to := rotatedNameOf(filepath.Base(path), now, n)
			if err := o.checkIn(dir, to); err != nil {
				return err
			}
			if isTaken(root, to) {
				continue
			}
			if err := root.Rename(filepath.Base(path), to); err != nil || !o.settings.Fsync {
				return err
			}
			return sdk.SyncFile(dir)
		}
	})
}

// isTaken reports whether a file with this name exists, compressed or not.
func isTaken(root *os.Root, name string) bool {
	for _, ext := range []string{"", ".gz", ".zst"} {
		if _, err := root.Lstat(name + ext); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// stamp is the format of the rotation time between the name of a file and its extension. Rotated files sorted by name
// are in chronological order.
const stamp = "20060102T150405.000"

func rotatedNameOf(base string, now time.Time, n int) string {
	packed := packing().FindString(base)
	base = strings.TrimSuffix(base, packed)
	ext := filepath.Ext(base)
	return strings.TrimSuffix(base, ext) + "-" + now.UTC().Format(stamp) + "." + fmt.Sprintf("%03d", n) + ext + packed
}

// isRotatedName reports whether rotatedNameOf can return name, compressed or not.
func isRotatedName(base, name string) bool {
	if packed := packing().FindString(base); packed != "" && packing().FindString(name) != packed {
		return false
	}
	base = packing().ReplaceAllString(base, "")
	ext := filepath.Ext(base)
	text, begins := strings.CutPrefix(name, strings.TrimSuffix(base, ext)+"-")
	text, ends := strings.CutSuffix(packing().ReplaceAllString(text, ""), ext)
	if !begins || !ends || len(text) < len(stamp)+2 {
		return false
	}
	_, err := time.Parse(stamp, text[:len(stamp)])
	_, notNumber := strconv.ParseUint(text[len(stamp)+1:], 10, 32)
	return err == nil && notNumber == nil && text[len(stamp)] == '.'
}
