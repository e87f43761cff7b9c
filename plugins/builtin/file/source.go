package file

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	batchRecords  = 1000
	spareFields   = 4  // spare capacity in the metadata for what the host adds to each record
	textPerRecord = 80 // position and key, roughly
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond

	keyPath = "file.path"
)

type settings struct {
	Path string `json:"path" validate:"required" desc:"Path of the file to read. It need not exist yet."`
}

// Source follows the lines of a file. Every line becomes a record: the key is the
// number of the line, the payload the line without its newline.
type Source struct {
	sdk.SourceBase

	path  string
	tail  tail
	pause time.Duration
	// What follows offset and line in a position, as of the first headed bytes of the file.
	identity []byte
	headed   int64
}

// Parameters describes the settings.
func (s *Source) Parameters() sdk.Parameters { return sdk.ParametersOf(settings{}) }

// Configure checks and keeps the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) error {
	var c settings
	if err := sdk.Decode(values, &c); err != nil {
		return err
	}
	s.path = c.Path
	return sdk.CheckPath(ctx, "path", c.Path)
}

// Open finds the file that pos is in, if it is not at the path any more. A file that
// does not exist is waited for by Read.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	check := func(f *os.File) error { return sdk.CheckOpen(ctx, "path", f) }
	s.tail = tail{path: s.path, log: sdk.Logger(ctx), check: check}
	if len(pos) == 0 {
		_, err := s.tail.open()
		return err
	}
	p, err := parsePosition(pos)
	if err != nil {
		return err
	}
	return s.tail.resume(p)
}

// Read returns the lines that are there, waiting for the first one.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if records := s.take(); len(records) > 0 {
			s.pause = 0
			return records, nil
		}
		more, err := s.tail.advance()
		if err != nil {
			return nil, err
		}
		if !more {
			s.tail.idle()
			s.wait(ctx)
		}
	}
}

// wait waits until ctx ends or it is time to poll the file again: soon, and less
// often while nothing happens.
func (s *Source) wait(ctx context.Context) {
	s.pause = min(max(2*s.pause, shortestPause), longestPause)
	timer := time.NewTimer(s.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Teardown closes the file.
func (s *Source) Teardown(context.Context) error {
	if s.tail.file == nil {
		return nil
	}
	f := s.tail.file
	s.tail.lines = lines{}
	if err := f.Close(); err != nil {
		return fmt.Errorf("cannot close %s: %w", s.path, err)
	}
	return nil
}

// take makes records of the lines that were read. The parts of the records are cut
// from one array each.
func (s *Source) take() []record.Record {
	t := &s.tail
	line, ok := t.next()
	if !ok {
		return nil
	}
	n := min(batchRecords, bytes.Count(t.buf, []byte{'\n'})+2)
	records := make([]record.Record, 0, n)
	fields := make([]record.Field, n*(1+spareFields))
	text := make([]byte, 0, n*textPerRecord)
	s.identity = s.identity[:0]
	for ; ok; line, ok = t.next() {
		start := len(text)
		text = s.appendPosition(text)
		key := len(text)
		text = strconv.AppendInt(text, t.line, 10)
		fields[0] = record.Field{Key: keyPath, Value: s.path}
		records = append(records, record.Record{
			Position:  text[start:key:key],
			Operation: record.OperationCreate,
			Metadata:  fields[: 1 : 1+spareFields],
			Key:       record.Raw(text[key:len(text):len(text)]),
			After:     record.Raw(line),
		})
		fields = fields[1+spareFields:]
		if len(records) == n {
			break
		}
	}
	return records
}

// appendPosition appends the position behind the line that was returned last.
func (s *Source) appendPosition(dst []byte) []byte {
	t := &s.tail
	dst = strconv.AppendInt(dst, t.offset, 10)
	dst = append(dst, ';')
	dst = strconv.AppendInt(dst, t.line, 10)
	if headed := min(t.offset, headBytes); len(s.identity) == 0 || s.headed != headed {
		p := place{inode: t.inode, head: headHash(t.head, t.offset), switches: t.switches}
		s.identity, s.headed = p.appendIdentity(s.identity[:0]), headed
	}
	return append(dst, s.identity...)
}
