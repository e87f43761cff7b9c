package record

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Batch is a sequence of records from one source, in the source's order. It moves by ownership: after a batch is passed
// on, the former owner no longer uses it. Between two connectors that run as processes the records stay encoded, and
// between two connectors of the agent they may stay lines.
//
// Reading from a batch, including decoding, is safe for concurrent use.
type Batch struct {
	encoded *encoded                 // nil: not made of encoded records
	lines   *lines                   // nil: not made of lines
	decoded atomic.Pointer[[]Record] // nil: still encoded, or lines
	mu      sync.Mutex               // held while decoding

	sized   sync.Once // size, content, objects and deep are set, always for encoded records and lines
	size    int
	content int
	objects int  // records with structured data
	deep    bool // a record has data nested too deeply
	memory  int  // estimate of the decoded size from the encoded form; 0: unknown
}

// NewBatch returns a batch of the given records, and keeps the slice. It does not read the records: their size is
// computed on first use.
func NewBatch(records []Record) *Batch {
	b := &Batch{}
	b.decoded.Store(&records)
	return b
}

// Decoded returns the records unless they are still encoded or lines.
func (b *Batch) Decoded() ([]Record, bool) {
	if records := b.decoded.Load(); records != nil {
		return *records, true
	}
	return nil, false
}

// Len returns the number of records.
func (b *Batch) Len() int {
	if records, ok := b.Decoded(); ok {
		return len(records)
	}
	if b.lines != nil {
		return b.lines.Len()
	}
	return len(b.encoded.spans)
}

// Position returns the position of record i. The caller must not change it.
func (b *Batch) Position(i int) Position {
	if records, ok := b.Decoded(); ok {
		return records[i].Position
	}
	if b.lines != nil {
		return b.lines.Position(i)
	}
	return b.encoded.position(i)
}

// Operation returns the operation of record i. An encoded record stays encoded.
func (b *Batch) Operation(i int) Operation {
	if records, ok := b.Decoded(); ok {
		return records[i].Operation
	}
	if b.lines != nil {
		return OperationCreate
	}
	return b.encoded.operation(i)
}

// Metadata returns the value of key in the metadata of record i, "" if there is none. An encoded record stays encoded.
func (b *Batch) Metadata(i int, key string) string {
	if records, ok := b.Decoded(); ok {
		return records[i].Metadata.Get(key)
	}
	if b.lines != nil {
		return b.lines.metadata.Get(key)
	}
	return b.encoded.metadata(i, key)
}

// Size returns the size of the content in bytes. For a batch made of decoded records this is the sum of Record.Size at
// the first use of a size, for others the length of the encoded records or lines.
func (b *Batch) Size() int {
	size, _ := b.sizes()
	return size
}

// Content returns the sum of Record.Content, at the same time as Size.
func (b *Batch) Content() int {
	_, content := b.sizes()
	return content
}

func (b *Batch) sizes() (size, content int) {
	if b.encoded == nil && b.lines == nil {
		b.sized.Do(b.measure)
	}
	return b.size, b.content
}

// measure sets size, content, objects and deep of a batch made of decoded records.
func (b *Batch) measure() {
	records := *b.decoded.Load()
	for i := range records {
		n, deep := records[i].contentDepth()
		b.deep = b.deep || deep
		b.size, b.content = b.size+n+records[i].overhead(), b.content+n
		if records[i].isStructured() {
			b.objects++
		}
	}
}

// Approximate memory of a record without its content: a decoded one with its metadata, a small object, and the place of
// an encoded one in its message.
const (
	decodedOverhead = 400
	objectOverhead  = 200
	encodedOverhead = 20
)

// Memory estimates the memory of the batch in bytes.
func (b *Batch) Memory() int {
	if records, ok := b.Decoded(); ok {
		return max(b.memory, b.Size()+len(records)*decodedOverhead+b.structured()*objectOverhead)
	}
	if b.lines != nil {
		return b.Size() + linesOverhead
	}
	return b.Size() + len(b.encoded.spans)*encodedOverhead
}

// structured returns the number of decoded records with structured data.
func (b *Batch) structured() int {
	if b.encoded != nil {
		return b.Len() // the number is unknown: count all
	}
	b.sizes()
	return b.objects
}

// Records returns the records, and decodes them if necessary; then the batch stays decoded. The records belong to the
// batch. Making records of lines never fails.
func (b *Batch) Records() ([]Record, error) {
	if records, ok := b.Decoded(); ok {
		return records, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if records, ok := b.Decoded(); ok {
		return records, nil
	}
	if b.lines != nil {
		records := b.lines.decode()
		b.decoded.Store(&records)
		return records, nil
	}
	records, err := b.encoded.decode()
	if err != nil {
		return nil, err
	}
	b.decoded.Store(&records)
	return records, nil
}

// parsed returns the records, unless they are encoded. It makes them of lines.
func (b *Batch) parsed() ([]Record, bool) {
	if b.lines == nil {
		return b.Decoded()
	}
	records, err := b.Records()
	return records, err == nil
}

// Slice returns the records i to j-1 as a batch that shares them with b.
func (b *Batch) Slice(i, j int) *Batch {
	if records, ok := b.parsed(); ok {
		return NewBatch(records[i:j:j])
	}
	e := b.encoded.slice(i, j)
	return newEncoded(e)
}

// Clone returns a copy that shares no mutable data with b.
func (b *Batch) Clone() *Batch {
	records, ok := b.parsed()
	if !ok {
		return &Batch{encoded: b.encoded.slice(0, b.Len()), size: b.size, content: b.content}
	}
	clones := make([]Record, len(records))
	for i := range records {
		clones[i] = records[i].Clone()
	}
	return NewBatch(clones)
}

// SetMetadataDefault sets the metadata key of every record without a value. Encoded records stay encoded. It changes
// the batch, so only the sole owner of the batch may call it.
func (b *Batch) SetMetadataDefault(key, value string) {
	records, ok := b.Decoded()
	switch {
	case ok:
	case b.lines != nil:
		b.lines.metadata.SetDefault(key, value)
	default:
		b.encoded.setDefault(key, value)
	}
	for i := range records {
		records[i].Metadata.SetDefault(key, value)
	}
}

// SetMetadata sets the metadata key of every record, like SetMetadataDefault, but overwrites other values. It decodes
// encoded records if a record has another value.
func (b *Batch) SetMetadata(key, value string) error {
	b.SetMetadataDefault(key, value)
	if _, ok := b.Decoded(); !ok && b.lines != nil {
		b.lines.metadata.Set(key, value)
		return nil
	}
	for i := range b.Len() {
		if b.Metadata(i, key) == value {
			continue
		}
		records, err := b.Records()
		if err != nil {
			return err
		}
		for ; i < len(records); i++ {
			records[i].Metadata.Set(key, value)
		}
		return nil
	}
	return nil
}

// AppendWire appends the records i to j-1 to dst in the protobuf form that
// NewEncodedBatch reads.
func (b *Batch) AppendWire(dst []byte, i, j int) ([]byte, error) {
	records, ok := b.parsed()
	if !ok {
		return b.encoded.appendWire(dst, i, j), nil
	}
	for ; i < j; i++ {
		var start int
		var err error
		dst, start = openMessage(dst, 1)
		if dst, err = AppendWire(dst, &records[i]); err != nil {
			return dst, fmt.Errorf("cannot encode record %q: %w", records[i].Position, err)
		}
		dst = closeMessage(dst, start)
	}
	return dst, nil
}
