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
	maxReader    = 16 << 10 // bytes of a reader's file that are read
)

// position is where a reader is, and what its file says.
type position struct {
	name    string
	log     uint64 // identity of the log that the file was about when it was read
	low     uint64 // all before it is acknowledged
	saved   uint64 // low as it is in the file
	savedAt time.Time
}

// readers are the durable positions of those who read a log. The mutex of the log guards
// them.
type readers struct {
	fs       FS
	dir      string
	log      *slog.Logger
	now      func() time.Time
	id       uint64 // of the log
	byName   map[string]*position
	attached int // see Reader.Attach
}

// load reads the file of a reader. One that cannot be read is a reader that acknowledged
// nothing.
func (rs *readers) load(file string) {
	p, err := parseReader(rs.fs, filepath.Join(rs.dir, file))
	if err != nil {
		rs.log.Warn("cannot read where a reader of the spool is: all is kept until it comes back", "file", file, "err", err)
		p = &position{name: file}
	}
	p.saved, p.savedAt = p.low, rs.now()
	rs.byName[p.name] = p
}

// begin has the readers read the log with this identity: in another they acknowledged nothing.
func (rs *readers) begin(id uint64) {
	rs.id = id
	for _, p := range rs.byName {
		if p.log != id {
			p.low = 0
		}
	}
}

// add returns the position of a reader, whose file there is then.
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

// remove removes a reader, and reports whether there was one.
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

// low returns the offset before which all readers acknowledged all, 0 when there is no reader.
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

// save writes where the reader is, if it moved on. The file may lag behind: more is kept then.
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
	_ = rs.fs.Remove(temporary) // of a save that failed
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

// path returns the file of a reader, whatever characters and length its name has.
func (rs *readers) path(name string) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	return filepath.Join(rs.dir, fmt.Sprintf("%s%016x", readerPrefix, h.Sum64()))
}

func isReader(name string) bool {
	return strings.HasPrefix(name, readerPrefix) && !isDraft(name)
}

// isDraft reports whether a file is where a reader is, and not complete.
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
