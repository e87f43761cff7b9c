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

// Offsets of user_version and application_id in the header of a SQLite file.
const (
	headerVersion = 60
	headerAppID   = 68
	headerSize    = 100
	headerMagic   = "SQLite format 3\x00"
	headerForms   = 18 // two bytes: format versions for writing and reading, 1 or 2
)

// State is the state in which a file was left. The generation is stored as user_version in the header of the file. An
// odd generation means that an agent has the file open, so the file may lack data in its log. An even one means that
// the file was closed and is complete without a log. A negative one marks a backup, and 0 a file that was never opened.
// A note next to the file also contains the generation of the last opening, to distinguish a replacement from the
// original.
type State struct {
	Generation int32
	Last       int32 // from the note; 0 without one, negative while a replacement is being adopted
	Log        int64 // bytes of the write-ahead log; 0 if there is none
}

// maxNote is the maximum length of a note.
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
		s.Last = int32(n) // a note that a power cut left empty is ignored
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
		return nil, fmt.Errorf("%w: not a database (%d bytes of header); restore a backup with conduit store restore "+
			"FILE, or move the file away to start over: every source then starts from its beginning",
			ErrDamaged, n)
	}
	if w, r := header[headerForms], header[headerForms+1]; w < 1 || w > 2 || r < 1 || r > 2 {
		return nil, fmt.Errorf("%w: its header has the unknown format version %d/%d; %s", ErrDamaged, w,
			r, advice[ErrDamaged])
	}
	return header, nil
}

// ApplicationID returns the id of the application that created the SQLite file at path.
func ApplicationID(path string) (uint32, error) {
	header, err := readHeader(path)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(header[headerAppID:]), nil
}

// Err returns ErrIncomplete if the file cannot be the one that its agent last left: it is a copy made without the log
// while an agent ran, or the log belongs to a later state.
func (s State) Err(path string) error {
	switch {
	case s.Last < 0:
		return nil
	case s.Generation%2 == 1 && s.Log == 0:
		return fmt.Errorf("%w: %s was copied without its log %s while an agent ran, or the log was removed: the "+
			"latest changes are missing, and its pages may be inconsistent; put the log next to it, restore a backup "+
			"with conduit store restore FILE, or accept the file with conduit store repair", ErrIncomplete, path,
			path+"-wal")
	case s.Log > 0 && s.Last > 0 && s.Last > s.Generation:
		return fmt.Errorf("%w: the log %s belongs to a later state than %s, which was replaced by another file; "+
			"restore a backup with conduit store restore FILE, or use the file without the log with conduit store "+
			"repair", ErrIncomplete, path+"-wal", path)
	}
	return nil
}

// Replaced reports whether an older complete file, such as a backup, replaced the original.
func (s State) Replaced() bool {
	return s.Generation < 0 || s.Last < 0 || s.Log == 0 && s.Last > s.Generation && s.Generation%2 == 0
}

func notePath(path string) string { return path + ".generation" }

// Adopt records in the note that a replacement at path is being adopted, until the next Begin. It returns the
// generation for the file.
func (s State) Adopt(path string) (generation int32, err error) {
	generation = max(s.Generation, -s.Generation, s.Last, -s.Last, 1)
	generation += generation % 2
	if err := os.WriteFile(notePath(path), fmt.Appendln(nil, -generation), 0o600); err != nil {
		return 0, err
	}
	inherit(notePath(path), path)
	return generation, syncFile(notePath(path))
}

// Begin marks the file at path as open, in its header and in the note. writer is its only writing connection.
func Begin(ctx context.Context, writer *sql.DB, path string) error {
	version, err := userVersion(ctx, writer)
	if err != nil {
		return err
	}
	version = (max(version, 0) + 1) | 1
	if err := setUserVersion(ctx, writer, version); err != nil {
		return err
	}
	// The header reaches the file when the log is next written back, which a reader may delay.
	if _, err := writer.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		return err
	}
	draft := notePath(path) + ".new"
	if err := os.WriteFile(draft, fmt.Appendln(nil, version), 0o600); err != nil {
		return err
	}
	inherit(draft, path)
	return os.Rename(draft, notePath(path)) // not synced: an older note has the same effect, but later
}

// End marks the file as complete. It is complete when its log is written back.
func End(ctx context.Context, writer *sql.DB) error {
	version, err := userVersion(ctx, writer)
	if err == nil && version%2 == 1 {
		err = setUserVersion(ctx, writer, version+1)
	}
	return err
}

// EmptyLog writes the log back into the file at path and empties it. busy reports whether a reader prevented that.
func EmptyLog(ctx context.Context, writer *sql.DB, path string) (busy bool, err error) {
	if err := End(ctx, writer); err != nil {
		return false, err
	}
	var frames, written int
	if err := writer.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames,
		&written); err != nil {
		return false, err
	}
	return busy, Begin(ctx, writer, path)
}

// WarnOfLog logs a warning if a closed file at path still has a log: SQLite does not report that it could not write the
// log back.
func WarnOfLog(log *slog.Logger, path string) {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		log.Warn("the write-ahead log was not written back when its file was closed, because the disk failed or "+
			"another process reads the file; it is written back when the file is next opened", "file", path)
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

// RewriteLog makes the log of the file at path durable after a failed fsync. The kernel then considers the pages of the
// log as written, and another fsync would do nothing, so RewriteLog writes the pages again first. The log must not be
// open for writing elsewhere.
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

// SyncDir makes the names in dir, and dir's own name, durable.
func SyncDir(dir string) error {
	for _, name := range []string{dir, filepath.Dir(dir)} {
		if err := syncFile(name); err != nil {
			return fmt.Errorf("cannot sync %q: %w", name, err)
		}
	}
	return nil
}
