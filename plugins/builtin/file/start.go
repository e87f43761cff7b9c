package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// endOf returns the place behind the last complete line of the file at a path. It is at the beginning for a file that
// does not exist. A compressed file is left out as a whole: its end is behind everything.
func (t *tail) endOf(path string) (place, error) {
	f, err := t.openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return place{}, nil
	}
	if err != nil {
		return place{}, err
	}
	defer f.Close()
	p, err := endIn(f)
	if err != nil {
		return place{}, fmt.Errorf("cannot find the end of %s: %w", path, err)
	}
	return p, nil
}

func endIn(f *content) (p place, err error) {
	info, err := f.Stat()
	if err != nil {
		return p, err
	}
	p.inode = inodeOf(info)
	if f.packed != nil {
		return leaveOut(f, p)
	}
	if p.offset, err = lastLine(f, info.Size()); err != nil {
		return p, err
	}
	head := make([]byte, min(p.offset, headBytes))
	if _, err := f.ReadAt(head, 0); err != nil {
		return p, err
	}
	p.head = headHash(head, p.offset)
	p.before.length = min(p.offset, windowBytes)
	p.before.sum, err = sumOf(f, p.offset-p.before.length, p.before.length)
	return p, err
}

// sumOf returns the CRC-32C of a part of a file.
func sumOf(f *content, from, n int64) (uint32, error) {
	sum := crc32.New(castagnoli)
	_, err := io.CopyN(sum, io.NewSectionReader(f, from, n), n)
	return sum.Sum32(), err
}

// leaveOut returns the place behind everything in a compressed file. Its window is at the beginning of the file. An
// empty file is not left out.
func leaveOut(f *content, p place) (place, error) {
	head := make([]byte, headBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return p, err
	}
	if n > 0 {
		p.offset, p.before.length, p.before.sum = leftOut, int64(n), crc32.Checksum(head[:n], castagnoli)
	}
	return p, nil
}

// isLeftOut reports whether p is the place behind everything in f.
func (p *place) isLeftOut(f *content) bool {
	sum, err := sumOf(f, 0, p.before.length)
	return err == nil && sum == p.before.sum && f.packed != nil
}

// lastLine returns the offset behind the last newline of the first size bytes. In a line that is too long it returns an
// offset from which on the rest is too long, too.
func lastLine(f *content, size int64) (int64, error) {
	b := make([]byte, smallRead)
	for end := size; end > 0 && size-end <= maxLine; {
		n := min(end, int64(len(b)))
		if _, err := f.ReadAt(b[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
		if size-end > maxLine {
			return end, nil
		}
	}
	return 0, nil
}

// stateDir keeps the state of the source that positions do not have.
type stateDir struct {
	dir string // empty: no state is kept
}

const startName = "start" // file with the places at which reading began

// start returns the places at which reading begins without a position. If atEnds is set, they are the ends of the files
// that existed when the source was opened for the first time.
func (d stateDir) start(atEnds bool, ends func() (map[string]place, error)) (map[string]place, error) {
	if !atEnds {
		return nil, nil
	}
	if d.dir != "" {
		switch text, err := os.ReadFile(filepath.Join(d.dir, startName)); {
		case err == nil:
			return parseAll(text)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("cannot find out where reading began: %w", err)
		}
	}
	places, err := ends()
	if err != nil || d.dir == "" {
		return places, err
	}
	var text []byte
	for path, p := range places {
		text = append(p.append(appendPath(text, path)), '\n')
	}
	if err := d.write(startName, text); err != nil {
		return nil, fmt.Errorf("cannot keep where reading begins: %w", err)
	}
	return places, nil
}

// parseAll parses places, each on a line.
func parseAll(text []byte) (map[string]place, error) {
	places := map[string]place{}
	for line := range bytes.Lines(text) {
		one, _, err := parsePlaces(bytes.TrimSuffix(line, newline))
		if err != nil || one == nil {
			return nil, fmt.Errorf("cannot use the saved places in the files: %q is not a place", line)
		}
		for path, p := range one {
			places[path] = p
		}
	}
	return places, nil
}

// write replaces a file by one that survives a power cut.
func (d stateDir) write(name string, text []byte) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(d.dir, name)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = sdk.SyncFile(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return errors.Join(sdk.SyncDir(d.dir), sdk.SyncDir(filepath.Dir(d.dir)))
}
