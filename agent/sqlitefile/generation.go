package sqlitefile

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Where the header of a SQLite file has its user_version and its application_id.
const (
	headerVersion = 60
	headerAppID   = 68
	headerSize    = 100
	headerMagic   = "SQLite format 3\x00"
	headerForms   = 18 // two bytes: in which form it is written and read, 1 or 2
)

// State is in which state a file was left. Its generation is in the header of the file, as
// user_version: an odd one says that an agent has it open, so that the file may lack what is in its
// log; an even one that it was closed and is complete without a log; a negative one that it
// is a backup; 0 that it was never opened. The generation of the last opening is noted in a file next to it, too,
// so that a file that was put in its place can be distinguished from the original.
type State struct {
	Generation int32
	Last       int32 // as noted next to it; 0 when there is no note, negative while a file that was put in place is being taken over
	Log        int64 // bytes of the write-ahead log; 0 when there is none
}

// maxNote is the longest that a note can be.
const maxNote = 16

// StateOf returns the state of the file at path.
func StateOf(path string) (s State, err error) {
	header, err := readHeader(path)
	if err != nil {
		return s, err
	}
	s.Generation = int32(binary.BigEndian.Uint32(header[headerVersion:]))
	if info, err := os.Stat(path + "-wal"); err == nil {
		s.Log = info.Size()
	}
	note, err := os.Open(notePath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer note.Close()
	text, err := io.ReadAll(io.LimitReader(note, maxNote))
	if n, wrong := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32); err == nil && wrong == nil {
		s.Last = int32(n) // a note that a power cut left empty is none
	}
	return s, err
}

// readHeader returns the header of a SQLite file.
func readHeader(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	header := make([]byte, headerSize)
	if n, err := io.ReadFull(f, header); err != nil || string(header[:len(headerMagic)]) != headerMagic {
		return nil, fmt.Errorf("%w: not a database (%d bytes of header); put a backup in its place with conduit store restore FILE, or move it away to start over: every source then starts from its beginning", ErrDamaged, n)
	}
	if w, r := header[headerForms], header[headerForms+1]; w < 1 || w > 2 || r < 1 || r > 2 {
		return nil, fmt.Errorf("%w: its header says that it has the form %d/%d, which there is not; %s", ErrDamaged, w, r, advice[ErrDamaged])
	}
	return header, nil
}

// ApplicationID returns the id of the application that made the SQLite file at path.
func ApplicationID(path string) (uint32, error) {
	header, err := readHeader(path)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(header[headerAppID:]), nil
}

// Err returns an error that is ErrIncomplete when the file cannot be what its agent last left:
// a copy that was made without its log while an agent ran, or a file under the log of a later one.
func (s State) Err(path string) error {
	switch {
	case s.Last < 0:
		return nil
	case s.Generation%2 == 1 && s.Log == 0:
		return fmt.Errorf("%w: %s was copied without its log %s while an agent ran, or the log was removed: what was saved last is missing, and its pages may not fit together; "+
			"put the log next to it, or a backup in its place with conduit store restore FILE, or take it as it is with conduit store repair", ErrIncomplete, path, path+"-wal")
	case s.Log > 0 && s.Last > 0 && s.Last > s.Generation:
		return fmt.Errorf("%w: the log %s belongs to a later state than %s, which another file was put in the place of; "+
			"conduit store restore FILE puts a backup in its place, conduit store repair takes the file without the log", ErrIncomplete, path+"-wal", path)
	}
	return nil
}

// Replaced reports whether a complete file of earlier, such as a backup, was put in the place of the one that was there.
func (s State) Replaced() bool {
	return s.Generation < 0 || s.Last < 0 || s.Log == 0 && s.Last > s.Generation && s.Generation%2 == 0
}

func notePath(path string) string { return path + ".generation" }

// Adopt notes that the file at path, which was put in place, is being taken over, until the next
// Begin. It returns the generation that the file is to have then.
func (s State) Adopt(path string) (generation int32, err error) {
	generation = max(s.Generation, -s.Generation, s.Last, -s.Last, 1)
	generation += generation % 2
	if err := os.WriteFile(notePath(path), fmt.Appendln(nil, -generation), 0o600); err != nil {
		return 0, err
	}
	inherit(notePath(path), path)
	return generation, syncFile(notePath(path))
}

// Begin marks the file at path as open, in its header and next to it. writer is its only connection that writes.
func Begin(ctx context.Context, writer *sql.DB, path string) error {
	version, err := userVersion(ctx, writer)
	if err != nil {
		return err
	}
	version = (max(version, 0) + 1) | 1
	if err := setUserVersion(ctx, writer, version); err != nil {
		return err
	}
	// The header reaches the file with the next write back of the log, which a reader may hold up.
	if _, err := writer.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		return err
	}
	draft := notePath(path) + ".new"
	if err := os.WriteFile(draft, fmt.Appendln(nil, version), 0o600); err != nil {
		return err
	}
	inherit(draft, path)
	return os.Rename(draft, notePath(path)) // not synced: an older note is as good, but later
}

// End marks the file as complete, which it is once its log is written back.
func End(ctx context.Context, writer *sql.DB) error {
	version, err := userVersion(ctx, writer)
	if err == nil && version%2 == 1 {
		err = setUserVersion(ctx, writer, version+1)
	}
	return err
}

// EmptyLog writes the log back into the file at path and empties it. It reports whether a
// reader was in the way.
func EmptyLog(ctx context.Context, writer *sql.DB, path string) (busy bool, err error) {
	if err := End(ctx, writer); err != nil {
		return false, err
	}
	var frames, written int
	if err := writer.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &written); err != nil {
		return false, err
	}
	return busy, Begin(ctx, writer, path)
}

// WarnOfLog logs that the log of the file at path, which was closed, is still there: SQLite does not say that it
// could not write it back.
func WarnOfLog(log *slog.Logger, path string) {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		log.Warn("the write-ahead log was not written back when its file was closed, because the disk failed or another process reads the file: "+
			"that is done when the file is opened next", "file", path)
	}
}

func userVersion(ctx context.Context, db *sql.DB) (version int32, err error) {
	err = db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version)
	return version, err
}

func setUserVersion(ctx context.Context, db *sql.DB, version int32) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version))
	return err
}

// RewriteLog makes the log of the file at path durable after an fsync of it failed. The kernel then
// takes its pages for written, so that another fsync would do nothing: they are written again first.
// Nothing may have the log open for writing.
func RewriteLog(path string) error {
	f, err := os.OpenFile(path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	part := make([]byte, 1<<20)
	for at := int64(0); ; {
		n, err := f.ReadAt(part, at)
		if n > 0 {
			if _, err := f.WriteAt(part[:n], at); err != nil {
				return err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return f.Sync()
		}
		if err != nil {
			return err
		}
	}
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncDir makes the names in dir durable, and dir's own name.
func SyncDir(dir string) error {
	for _, name := range []string{dir, filepath.Dir(dir)} {
		if err := syncFile(name); err != nil {
			return fmt.Errorf("cannot sync %q: %w", name, err)
		}
	}
	return nil
}
