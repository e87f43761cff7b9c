package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/record"
)

// table is the header of the open file of CSV. Each file begins with its own, unless the settings name the columns.
type table struct {
	file *content // the file; nil: none was read yet
	read *csv.Table
	err  error // why there is none
}

// isHeader reports whether the last line is the header of the open file, and remembers it. One that is no header is a
// line like others.
func (s *single) isHeader(line []byte) bool {
	if s.csv == nil || s.csv.Columns() != nil || s.start != 1 || !s.beginsFile(line) {
		return false
	}
	s.table.file = s.file
	s.table.read, s.table.err = s.csv.Header(line)
	return s.table.err == nil
}

// beginsFile reports whether the last line is the first one of the open file, behind a hole at most. Lines count from
// elsewhere when reading began at the end of the file.
func (s *single) beginsFile(line []byte) bool {
	begin := s.offset - int64(len(line)) - 1
	if begin <= 0 || begin == int64(len(byteOrderMark)) && bytes.HasPrefix(s.head, byteOrderMark) {
		return true
	}
	var first [1]byte
	n, _ := s.file.ReadAt(first[:], 0)
	return n == 1 && first[0] == 0
}

// columns returns the columns of the open file, and reads its header if reading has begun behind it.
func (s *single) columns() (*csv.Table, error) {
	if fixed := s.csv.Columns(); fixed != nil {
		return fixed, nil
	}
	if s.table.file != s.file {
		s.table.file = s.file
		s.table.read, s.table.err = s.readHeader()
	}
	return s.table.read, s.table.err
}

// maxHeader bounds the header of a file.
const maxHeader = 1 << 20

func (s *single) readHeader() (*csv.Table, error) {
	text := make([]byte, maxHeader)
	n, err := s.file.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cannot read the header: %w", err)
	}
	text = bytes.TrimPrefix(bytes.TrimLeft(text[:n], "\x00"), byteOrderMark)
	line, _, ends := bytes.Cut(text, newline)
	if s.groupBegin != nil {
		if line, _ = s.csv.Line(text); len(line) == len(text) {
			ends = false
		}
	}
	if !ends {
		return nil, fmt.Errorf("the header is longer than %d bytes", maxHeader)
	}
	return s.csv.Header(line)
}

// structure replaces the text of a record by the object of the columns. A line that does not fit stays text, and its
// metadata has the error.
func (s *single) structure(r *record.Record, line []byte) {
	t, err := s.columns()
	if err == nil {
		var object map[string]any
		if object, err = t.Object(line); err == nil {
			r.After = record.Structured(object)
			return
		}
	}
	r.Metadata.Set(csv.KeyError, err.Error())
}
