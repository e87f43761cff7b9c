package record

// Lines are consecutive records of a source that are still one text: the payload of a record is a line without its
// newline. The records are made only if something looks at them. They are created, not changed or deleted, have no
// payload before, and all have the same metadata.
//
// The methods may be called concurrently, except for Free.
type Lines interface {
	// Text returns the lines, each with its newline. The caller must not change it.
	Text() []byte
	// Len returns the number of lines.
	Len() int
	// Content returns the sum of Record.Content of the records.
	Content() int
	// Metadata returns the metadata of every record. The caller must not change it.
	Metadata() Metadata
	// Position returns the position of the record of line i. The last one costs little.
	Position(i int) Position
	// Records returns the records. They may share memory with Text.
	Records() []Record
	// Free lets the source reuse the memory of Text. It is the last call, and only follows if Records was not called.
	Free()
}

// lines holds records as lines.
type lines struct {
	Lines
	metadata Metadata // of every record: the metadata of the source, and the host's
}

// linesOverhead is the memory of lines without their text.
const linesOverhead = 500

// NewLines returns a batch of the records of l, with further metadata that the records of l lack.
func NewLines(l Lines, further ...Field) *Batch {
	b := &Batch{lines: &lines{l, l.Metadata().Clone()}, size: len(l.Text()), content: l.Content()}
	for _, f := range further {
		b.lines.metadata.SetDefault(f.Key, f.Value)
	}
	return b
}

// Lines returns the lines of a batch that was made of lines, also if its records were made since. They do not have
// later changes of the records.
func (b *Batch) Lines() (Lines, bool) {
	if b.lines == nil {
		return nil, false
	}
	return b.lines.Lines, true
}

// Free lets the source reuse the memory of lines, unless their records were made. The batch must not be used again.
func (b *Batch) Free() {
	if b.lines != nil && b.decoded.Load() == nil {
		b.lines.Free()
	}
}

func (l *lines) decode() []Record {
	records := l.Records()
	const hostFields = 4
	each := len(l.metadata) + hostFields
	fields := make([]Field, len(records)*each)
	for i := range records {
		n := copy(fields, l.metadata)
		records[i].Metadata, fields = fields[:n:each], fields[each:]
	}
	return records
}
