package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	keyObject = "s3.key" // key of the metadata for the object of a line

	batchRows = 1000
)

// unfinished is the object in the position of a line that is not its last one. Reading resumes behind that line.
type unfinished struct {
	ETag      string `json:"etag"`
	VersionID string `json:"versionId,omitempty"`
	Operation int32  `json:"operation"`
	Size      int64  `json:"size"`
}

// rows are the lines of an object that are not returned yet.
type rows struct {
	csv    *csv.Reader // nil: lines are records as they are
	table  *csv.Table
	err    error // why there is no table
	text   []byte
	line   int64         // number of the last line taken from text
	common record.Record // what all records have
	// Positions: identity, the number of the line and further for all lines but the last one, which has whole.
	identity, further []byte
	whole             record.Position
}

var errGone = errors.New("the object was removed or replaced while its lines were read")

// fetchRows returns the next lines of the first object in the queue. It opens one object at a time, because the content
// stays in memory.
func (s *Source) fetchRows(ctx context.Context) ([]record.Record, error) {
	if s.rows == nil {
		if err := s.openRows(ctx); err != nil || s.rows == nil {
			return nil, err
		}
	}
	records := s.rows.next(batchRows)
	if len(s.rows.text) == 0 {
		s.rows = nil
	}
	return records, nil
}

// openRows takes an object from the queue, and opens it if it has lines.
func (s *Source) openRows(ctx context.Context) error {
	if err := sdk.Reserve(ctx, int(s.sizeOf(0))); err != nil {
		return err
	}
	one := s.read(ctx, &s.queue[0])
	if one.found {
		s.mayRead = true
	}
	if one.err != nil && !s.leavesOut(nil, one.err) {
		return one.err
	}
	o, resumed := s.queue[0], s.resumed
	s.queue, s.resumed = s.queue[1:], nil
	switch {
	case one.err != nil:
		s.leaveOut(&o, one.err)
	case resumed != nil && !one.found:
		what := fmt.Sprintf("lines of %s from %d on", o.Key, resumed.Row+1)
		s.skips.Add(what, errGone)
		s.log.Warn("skipping lines of an object", "key", o.Key, "line", resumed.Row+1, "err", errGone)
	case s.skips.Remove(o.Key):
		s.log.Info("an object that was skipped has now been read or removed", "key", o.Key)
	}
	after := int64(0)
	r := one.record
	var err error
	if resumed != nil {
		after, resumed.Row, resumed.Unfinished = resumed.Row, 0, nil
		r.Position, err = resumed.encode()
	} else {
		r, err = s.place(&o, r, one.found)
	}
	if err != nil || !one.found || o.operation == record.OperationDelete {
		return err
	}
	s.rows, err = s.newRows(&o, r, after)
	return err
}

// newRows returns the lines of an object after a line. r is the record for the whole object.
func (s *Source) newRows(o *object, r record.Record, after int64) (*rows, error) {
	text, _ := r.After.Raw()
	n := &rows{text: bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), common: r, whole: r.Position}
	n.common.Position, n.common.After = nil, record.Data{}
	n.common.Metadata.Set(keyObject, record.ValidName(o.Key))
	if n.common.Operation != record.OperationSnapshot {
		n.common.Operation = record.OperationCreate
	}
	if s.settings.Format == "csv" {
		n.csv, n.table = s.csv, s.csv.Columns()
	}
	place, err := json.Marshal(unfinished{o.etag, o.versionID, int32(o.operation), o.size})
	if err != nil {
		return nil, err
	}
	resume := []byte(`,"@resume":1`)
	identity, further, _ := bytes.Cut(n.whole, resume)
	n.identity = append(bytes.Clone(identity), `,"row":`...)
	n.further = fmt.Appendf(nil, `%s,"unfinished":%s%s`, resume, place, further)
	if size := len(n.identity) + len(n.further) + 20; size > record.MaxPosition {
		return nil, fmt.Errorf("the position of a line of object %q has %d bytes, more than the maximum of %d", o.Key, size,
			record.MaxPosition)
	}
	n.header()
	for n.skip(); n.line < after && len(n.text) > 0; n.skip() {
		n.take()
	}
	return n, nil
}

// take returns the next line.
func (n *rows) take() (line []byte) {
	n.line++
	if n.csv != nil {
		line, n.text = n.csv.Line(n.text)
		return line
	}
	line, n.text, _ = bytes.Cut(n.text, []byte{'\n'})
	return line
}

// header reads the header, unless the settings have the columns. A line that is no header is a line like others.
func (n *rows) header() {
	if n.csv == nil || n.table != nil || len(n.text) == 0 {
		return
	}
	text := n.text
	if n.table, n.err = n.csv.Header(n.take()); n.err != nil {
		n.text, n.line = text, 0
	}
}

// skip skips lines that are no records.
func (n *rows) skip() {
	for len(n.text) > 0 {
		rest, line := n.text, n.line
		next := n.take()
		if n.table != nil && n.table.Skips(next) || n.table == nil && len(bytes.TrimRight(next, "\r")) == 0 {
			continue
		}
		n.text, n.line = rest, line
		return
	}
}

// next returns at most so many records.
func (n *rows) next(most int) (records []record.Record) {
	for len(n.text) > 0 && len(records) < most {
		line := n.take()
		r := n.common
		r.Metadata = n.common.Metadata.Clone()
		r.Key = record.Raw(strconv.AppendInt(nil, n.line, 10))
		r.After = n.payload(&r, line)
		number := n.line
		if n.skip(); len(n.text) == 0 {
			r.Position = n.whole
		} else {
			r.Position = append(strconv.AppendInt(bytes.Clone(n.identity), number, 10), n.further...)
		}
		records = append(records, r)
	}
	return records
}

// payload returns the payload for a line. A line that does not fit the columns stays text.
func (n *rows) payload(r *record.Record, line []byte) record.Data {
	if n.csv == nil {
		return record.Raw(bytes.Clone(line))
	}
	err := n.err
	if err == nil {
		var object map[string]any
		if object, err = n.table.Object(line); err == nil {
			return record.Structured(object)
		}
	}
	r.Metadata.Set(csv.KeyError, err.Error())
	return record.Raw(bytes.Clone(line))
}
