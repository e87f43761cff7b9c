package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	batchRecords  = 1000
	spareFields   = 4  // spare capacity in the metadata for the host's fields
	textPerRecord = 80 // position and key, approximately
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond

	// advanceShare limits the share of time that reading from files that grow slowly takes: after reading all there was,
	// a source pauses this many times as long.
	advanceShare = 100

	keyPath = "file.path"

	formatLines = "lines" // the format of lines that are records as they are
)

type settings struct {
	// Path of the file to read, a directory, or a pattern such as /var/log/*.log or /var/log/**/*.log, where ** stands
	// for any directories. It need not exist yet.
	Path string `json:"path" literal:"true" validate:"required"`
	// Patterns of files, and of directories with all their files, that a directory or a pattern in path does not
	// include. A pattern without / matches a name, such as *.tmp; one with / a whole path, such as /var/log/**/debug.
	Exclude []string `json:"exclude" literal:"true"`
	// Where reading begins in the files that exist when the pipeline starts for the first time. end: behind their last
	// complete line. Files that appear later are read from their beginning.
	Start string `json:"start" default:"beginning" validate:"inclusion=beginning|end"`
	// Maximum number of open files. Of more files, those that were read to their ends are closed, and opened again when
	// they change.
	OpenFiles int `json:"openFiles" default:"500" validate:"gt=0"`
	// Format of the lines. lines: each is a record as it is. csv: each is an object, whose members have the names in the
	// first line of the file, or in csv.columns. A line that does not fit stays text, with csv.error in its metadata.
	// cri, docker: lines in the log of a container, written by a runtime for Kubernetes, or by the driver json-file of
	// Docker. Partial lines are joined, and the metadata has the stream, and the pod and container in path. auto: cri or
	// docker, line by line.
	Format string `json:"format" default:"lines" validate:"inclusion=lines|csv|cri|docker|auto"`
	// Compression of the content. auto: by the extension, .gz or .zst.
	Compression string `json:"compression" default:"auto" validate:"inclusion=auto|none|gzip|zstd"`
	// Regular expression that matches the first line of a record, such as ^[0-9]{4}-. Lines that do not match belong to
	// the previous record. Empty: every line is a record.
	GroupBegin string `json:"multiline.start"`
	// Maximum time that a record waits for more lines.
	GroupWait time.Duration `json:"multiline.timeout" default:"1s" validate:"gt=0"`
	// Maximum time that a partial line in the log of a container waits for its end.
	PartialWait time.Duration `json:"partial.timeout" default:"5s" validate:"gt=0"`

	csv.Settings
}

// options returns the options for converting content to records.
func (c *settings) options(z Zstd) (*options, error) {
	if err := checkZstd(z, "compression", c.Compression); err != nil {
		return nil, err
	}
	o := &options{compression: c.Compression, zstd: z, groupWait: c.GroupWait, atEnds: c.Start == "end",
		openFiles: c.OpenFiles, format: c.Format, partialWait: c.PartialWait}
	var err error
	if c.Format == "csv" {
		if o.csv, err = csv.NewReader(&c.Settings); err != nil {
			return nil, err
		}
	}
	if o.exclude, err = newExclusions(c.Exclude); err != nil || c.GroupBegin == "" {
		return o, err
	}
	if o.groupBegin, err = regexp.Compile(c.GroupBegin); err != nil {
		return nil, sdk.SettingError{Setting: "multiline.start", Message: err.Error()}
	}
	return o, nil
}

// Source follows the lines in one or several files. Each line, or group of lines, becomes a record. The key is the
// number of the first line, and the payload is the text without the last newline.
type Source struct {
	sdk.SourceBase

	zstd     Zstd
	settings settings
	options  *options
	reader   reader        // nil before Open
	pause    time.Duration // after the last attempt to read more
	due      time.Time     // when the pause ends
	latest   progress.Latest
	skips    progress.Skips
	measured time.Time
}

// reader reads one or several files.
type reader interface {
	// take returns records from the buffered content, or with blocks maybe a block of lines, if there are any. ctx is
	// that of the Read.
	take(ctx context.Context, blocks bool) (*block, []record.Record, error)
	// advance reads more content.
	advance(ctx context.Context) (result, error)
	// behind returns the number of unread bytes.
	behind() int64
	close() error
}

// result is the result of an attempt to read more content.
type result int

const (
	nothing   result = iota // there is nothing to read at the moment
	allRead                 // all there was is read
	maybeMore               // there may be more to read
)

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(settings{}, descriptions+csv.Descriptions)
}

// Configure validates and stores the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) (err error) {
	s.settings = settings{}
	if err := sdk.Decode(values, &s.settings); err != nil {
		return err
	}
	if s.options, err = s.settings.options(s.zstd); err != nil {
		return err
	}
	if err := sdk.CheckPath(ctx, "path", fixedPart(s.settings.Path)); err != nil {
		return err
	}
	return checkPattern("path", s.settings.Path)
}

// Open finds the files of pos, also when they have been moved. Read waits for a file that does not exist.
func (s *Source) Open(ctx context.Context, pos record.Position) error {
	check := func(f *os.File) error { return sdk.CheckOpen(ctx, "path", f) }
	t := tail{options: s.options, path: s.settings.Path, log: sdk.Logger(ctx), check: check, skips: &s.skips}
	s.options.held.buffer = sdk.NewBuffer(ctx)
	state := stateDir{sdk.EnvFrom(ctx).StateDir}
	if isSeveral(s.settings.Path) {
		t.leaveAfter = leaveAfter
		f := &follower{tail: t, state: state}
		s.reader = f
		return f.open(pos)
	}
	t.assembler = newAssembler(s.options)
	one := &single{tail: t}
	s.reader = one
	return one.open(pos, state)
}

// Notes implements sdk.Noter.
func (s *Source) Notes(context.Context) []string {
	t := tail{options: s.options, path: s.settings.Path, log: slog.New(slog.DiscardHandler), skips: &progress.Skips{}}
	if isSeveral(s.settings.Path) {
		f := &follower{tail: t}
		if _, err := f.matches(); err != nil {
			return []string{err.Error()}
		}
		return f.notes
	}
	if _, err := os.Stat(s.settings.Path); errors.Is(err, fs.ErrNotExist) {
		return []string{noFile + s.settings.Path}
	}
	return nil
}

const noFile = "there is no file "

// IgnoresAcks implements sdk.AckIgnorer: reading does not change the files, and positions have the places in them,
// unless there is a ledger.
func (s *Source) IgnoresAcks() bool { return s.ledger() == nil }

// ledger returns the ledger with the places in many files; nil if there is none.
func (s *Source) ledger() *ledger {
	if f, ok := s.reader.(*follower); ok {
		return f.ledger
	}
	return nil
}

// Ack keeps the places of the acknowledged records, if positions do not have them.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	if l := s.ledger(); l != nil {
		return l.acked(positions)
	}
	return nil
}

// Finish implements sdk.FinishingSource: the end of a file counts as the end of a line.
func (s *Source) Finish() { s.options.finish.Store(true) }

// Read waits for the first line and returns all available lines.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	_, records, err := s.read(ctx, false)
	return records, err
}

// NoLines implements sdk.LineSource.
func (s *Source) NoLines() string {
	switch {
	case s.settings.Format != formatLines:
		return "format " + s.settings.Format + " parses the lines"
	case s.settings.GroupBegin != "":
		return "multiline.start groups the lines"
	}
	return ""
}

// ReadLines implements sdk.LineSource. Few lines, and lines that need a closer look, are records.
func (s *Source) ReadLines(ctx context.Context) (record.Lines, []record.Record, error) {
	b, records, err := s.read(ctx, true)
	if b == nil {
		return nil, records, err
	}
	return b, nil, err
}

func (s *Source) read(ctx context.Context, blocks bool) (*block, []record.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		s.measure()
		b, records, err := s.reader.take(ctx, blocks)
		if b != nil || len(records) > 0 || err != nil {
			return b, records, err
		}
		s.wait(ctx)
		begin := time.Now()
		got, err := s.reader.advance(ctx)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case got == nothing:
			s.pause = min(max(2*s.pause, shortestPause), longestPause)
		case got == allRead && !s.options.finish.Load():
			s.pause = min(max(advanceShare*time.Since(begin), shortestPause), longestPause)
		default:
			s.pause = 0
		}
		s.due = time.Now().Add(s.pause)
	}
}

// measureInterval is the time between two measurements of the unread bytes.
const measureInterval = time.Second

func (s *Source) measure() {
	interval := measureInterval
	if s.options.finish.Load() { // a caller waits for the end
		interval = shortestPause
	}
	if now := time.Now(); now.Sub(s.measured) >= interval {
		s.measured = now
		bytes := s.reader.behind()
		r := progress.Report{Bytes: &bytes, At: now}
		switch reader := s.reader.(type) {
		case *single:
			if reader.file == nil {
				r.Unfinished = noFile + s.settings.Path
				r.Notes = []string{r.Unfinished}
			}
		case *follower:
			r.Notes = reader.notes
			if len(reader.order) == 0 && s.options.finish.Load() { // otherwise files may still appear
				r.Nothing = "there is no file of " + s.settings.Path
			}
		}
		s.latest.Set(r)
	}
}

// Progress reports the number of unread bytes of the files on disk, and the skipped data.
func (s *Source) Progress() progress.Report {
	r := s.latest.Report()
	r.Skipped = s.skips.List()
	return r
}

// wait waits until ctx ends or the next attempt to read is due. The pause grows while nothing happens. It gathers what
// is written to files that grow slowly: otherwise each line would be read alone.
func (s *Source) wait(ctx context.Context) {
	left := time.Until(s.due)
	if s.pause == 0 || left <= 0 {
		return
	}
	timer := time.NewTimer(common.TickBefore(left))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Teardown closes the files.
func (s *Source) Teardown(context.Context) error {
	if s.reader == nil {
		return nil
	}
	s.options.held.buffer.Close()
	return s.reader.close()
}

// single reads the file at one path.
type single struct {
	tail
	parked   *parked  // among several files: why the file is not read now; nil: it is read
	resting  *resting // among several files: why the file is closed; nil: it is not
	identity headIdentity
	table    table // of CSV
}

func (s *single) open(pos record.Position, state stateDir) error {
	if len(pos) == 0 {
		return s.begin(state)
	}
	places, _, err := parsePlaces(pos)
	if err == nil {
		if p, ok := places[s.path]; ok {
			return s.resume(p)
		}
		if places != nil {
			return sdk.Permanent(fmt.Errorf("cannot resume: the position is one of a directory or a pattern without "+
				"%s, and path is this one file now: set it back; %s", s.path, sdk.StartOver))
		}
		var p place
		if p, err = parsePosition(pos); err == nil {
			return s.resume(p)
		}
	}
	return err
}

// begin begins to read where the settings say.
func (s *single) begin(state stateDir) error {
	places, err := state.start(s.atEnds, func() (map[string]place, error) {
		p, err := s.endOf(s.path)
		if err != nil || p.offset == 0 {
			return nil, err
		}
		return map[string]place{s.path: p}, nil
	})
	if err != nil {
		return err
	}
	if p, ok := places[s.path]; ok {
		return s.resume(p)
	}
	_, err = s.tail.open()
	return err
}

func (s *single) take(_ context.Context, blocks bool) (*block, []record.Record, error) {
	if blocks {
		if b := s.block(nil); b != nil {
			return b, nil, nil
		}
	}
	return nil, s.records(batchRecords, nil), nil
}

func (s *single) advance(ctx context.Context) (result, error) {
	got, err := s.tail.advance(ctx)
	if got == nothing && err == nil {
		s.idle()
	}
	return got, err
}

func (s *single) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.lines = lines{}
	if err := f.Close(); err != nil {
		return fmt.Errorf("cannot close %s: %w", s.path, err)
	}
	return nil
}

// records converts up to most buffered lines to records. Their positions begin with prefix.
func (s *single) records(most int, prefix []byte) []record.Record {
	if s.assembler != nil {
		return s.assembler.records(s, most, prefix)
	}
	line, ok := s.next()
	if !ok {
		return nil
	}
	s.identity = headIdentity{}
	to := newMaker(min(most, bytes.Count(s.buf, newline)+2), s.path, prefix)
	for ; ok; line, ok = s.next() {
		if s.isHeader(line) {
			continue
		}
		r := to.add(&place{offset: s.offset, line: s.line, inode: s.inode, head: s.identity.hashBefore(s.head, s.offset),
			switches: s.switches, before: s.before}, s.start, line)
		if s.csv != nil {
			s.structure(r, line)
		}
		if len(to.records) == to.most {
			break
		}
	}
	return to.records
}

// position returns the place after the last record.
func (s *single) position() place {
	p := s.previous
	if s.offset > 0 || !p.isKnown() {
		p = place{offset: s.offset, line: s.line, inode: s.inode, head: s.identity.hashBefore(s.head, s.offset),
			switches: s.switches, before: s.before}
	}
	if s.assembler != nil {
		s.assembler.hold(&p, s.offset)
	}
	return p
}

// headIdentity computes place.head for offsets in one file. It keeps the latest result.
type headIdentity struct {
	hash uint64
	size int64 // of the hashed beginning
}

// hashBefore returns the hash of the beginning of a file, as far as it is before the offset. head has the first
// headBytes.
func (h *headIdentity) hashBefore(head []byte, offset int64) uint64 {
	if size := min(offset, headBytes); h.size != size || size == 0 {
		h.hash, h.size = headHash(head, offset), size
	}
	return h.hash
}

// maker makes records of lines. Their parts share one array each.
type maker struct {
	most    int             // number of records
	common  record.Metadata // of each record
	more    int             // pairs that a record may have in addition
	prefix  []byte          // of the positions
	records []record.Record
	fields  []record.Field
	text    []byte
	times   strings.Builder
}

// newMaker returns a maker of up to most records of a file.
func newMaker(most int, path string, prefix []byte) *maker {
	return &maker{most: most, common: record.Metadata{{Key: keyPath, Value: path}}, prefix: prefix}
}

// add makes a record of a line, or a group that begins with line number start. p is the place after it.
func (m *maker) add(p *place, start int64, line []byte) *record.Record {
	size := len(m.common) + m.more + spareFields
	if m.records == nil {
		m.records = make([]record.Record, 0, m.most)
		m.fields = make([]record.Field, m.most*size)
		m.text = make([]byte, 0, m.most*(textPerRecord+len(m.prefix)))
	}
	at := len(m.text)
	m.text = p.append(append(m.text, m.prefix...))
	key := len(m.text)
	m.text = strconv.AppendInt(m.text, start, 10)
	copy(m.fields, m.common)
	m.records = append(m.records, record.Record{
		Position:  m.text[at:key:key],
		Operation: record.OperationCreate,
		Metadata:  m.fields[:len(m.common):size],
		Key:       record.Raw(m.text[key:len(m.text):len(m.text)]),
		After:     record.Raw(line),
	})
	m.fields = m.fields[size:]
	return &m.records[len(m.records)-1]
}

var errTooManyFiles = errors.New("the offsets in all files do not fit into a position: read the files with " +
	"several sources")
