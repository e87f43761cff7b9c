package spoollog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"time"
)

const (
	readerPrefix = "reader-"
	draftSuffix  = ".tmp"
	saveEvery    = 10 * time.Second
	maxReader    = 16 << 10 // limit of the bytes read from a reader's file
)

// position is the position of a reader, and its saved value.
type position struct {
	name    string
	log     uint64 // identity of the log in the file when it was read
	low     uint64 // all records before it are acknowledged
	saved   uint64 // value of low in the file
	savedAt time.Time
}

// readers holds the durable positions of the readers of a log. The mutex of the log guards it.
type readers struct {
	fs       FS
	dir      string
	log      *slog.Logger
	now      func() time.Time
	id       uint64 // of the log
	byName   map[string]*position
	attached int // see Reader.Attach
}

// load reads the file of a reader. A reader whose file cannot be read has acknowledged nothing.
func (rs *readers) load(file string) {
	p, err := parseReader(rs.fs, filepath.Join(rs.dir, file))
	if err != nil {
		rs.log.Warn("cannot read where a reader of the spool is: all is kept until it comes back", "file", file, "err",
			err)
		p = &position{name: file}
	}
	p.saved, p.savedAt = p.low, rs.now()
	rs.byName[p.name] = p
}

// begin binds the readers to the log with this identity. A reader of another log has acknowledged nothing.
func (rs *readers) begin(id uint64) {
	rs.id = id
	for _, p := range rs.byName {
		if p.log != id {
			p.low = 0
		}
	}
}

// add returns the position of a reader. When it returns, the file of the reader exists.
func (rs *readers) add(name string) (*position, error) {
	if p := rs.byName[name]; p != nil {
		return p, nil
	}
	p := &position{name: name}
	if err := rs.write(p); err != nil {
		return nil, err
	}
	rs.byName[name] = p
	return p, nil
}

// remove removes a reader, and reports whether it existed.
func (rs *readers) remove(name string) (bool, error) {
	if rs.byName[name] == nil {
		return false, nil
	}
	if err := rs.fs.Remove(rs.path(name)); err != nil {
		return false, err
	}
	delete(rs.byName, name)
	return true, nil
}

// low returns the offset up to which all readers have acknowledged, 0 without readers.
func (rs *readers) low() uint64 {
	if len(rs.byName) == 0 {
		return 0
	}
	low := uint64(math.MaxUint64)
	for _, p := range rs.byName {
		low = min(low, p.low)
	}
	return low
}

// save saves the position of a reader if it has changed. The file may lag behind; then the log keeps more records.
func (rs *readers) save(p *position) {
	if p.saved == p.low {
		return
	}
	if err := rs.write(p); err != nil {
		rs.log.Warn("cannot save where a reader of the spool is", "reader", p.name, "err", err)
	}
}

func (rs *readers) saveAll() {
	for _, p := range rs.byName {
		rs.save(p)
	}
}

func (rs *readers) write(p *position) error {
	path := rs.path(p.name)
	text := fmt.Sprintf("%016x %016x %s", rs.id, p.low, p.name)
	text = fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(text), castagnoli), text)
	temporary := path + draftSuffix
	_ = rs.fs.Remove(temporary) // left by a failed save
	f, err := rs.fs.Create(temporary)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := rs.fs.Rename(temporary, path); err != nil {
		return err
	}
	if p.savedAt.IsZero() {
		if err := rs.fs.SyncDir(rs.dir); err != nil {
			return err
		}
	}
	p.saved, p.savedAt = p.low, rs.now()
	return nil
}

// path returns the file of a reader. Its name may have any characters and length.
func (rs *readers) path(name string) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	return filepath.Join(rs.dir, fmt.Sprintf("%s%016x", readerPrefix, h.Sum64()))
}

func isReader(name string) bool {
	return strings.HasPrefix(name, readerPrefix) && !isDraft(name)
}

// isDraft reports whether a file is a reader's position that was not completely saved.
func isDraft(name string) bool {
	return strings.HasPrefix(name, readerPrefix) && strings.HasSuffix(name, draftSuffix)
}

func parseReader(fs FS, path string) (*position, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, maxReader)
	n, _ := f.ReadAt(b, 0)
	sum, text, _ := strings.Cut(strings.TrimSuffix(string(b[:n]), "\n"), " ")
	if sum != fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli)) {
		return nil, errors.New("its checksum is wrong")
	}
	p := &position{}
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 {
		return nil, errors.New("it is malformed")
	}
	if _, err := fmt.Sscanf(parts[0]+" "+parts[1], "%x %x", &p.log, &p.low); err != nil {
		return nil, err
	}
	p.name = parts[2]
	return p, nil
}
