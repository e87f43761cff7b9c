package record

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Batch is a run of records of one source, in the source's order. It moves by
// ownership: after a batch is handed on, the giver no longer touches it. Between two
// connectors that run as processes it keeps its records encoded as they came.
//
// Reading from a batch is safe for concurrent use, which includes decoding it.
type Batch struct {
	encoded *encoded                 // nil: it was made of decoded records
	decoded atomic.Pointer[[]Record] // nil: it is still encoded
	mu      sync.Mutex               // held while decoding

	sized   sync.Once // size, content, objects and deep are set, which those of an encoded batch always are
	size    int
	content int
	objects int  // records with structured data
	deep    bool // a record has data that is nested too deeply
	memory  int  // that the records take decoded, by their encoded form; 0: not known
}

// NewBatch returns a batch of the given records, which it keeps. It does not read them:
// their size is computed when it is first needed.
func NewBatch(records []Record) *Batch {
	b := &Batch{}
	b.decoded.Store(&records)
	return b
}

// Decoded returns the records unless they are still encoded.
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
	return len(b.encoded.spans)
}

// Position returns the position of record i. It is not to be changed.
func (b *Batch) Position(i int) Position {
	if records, ok := b.Decoded(); ok {
		return records[i].Position
	}
	return b.encoded.position(i)
}

// Operation returns the operation of record i. An encoded record stays encoded.
func (b *Batch) Operation(i int) Operation {
	if records, ok := b.Decoded(); ok {
		return records[i].Operation
	}
	return b.encoded.operation(i)
}

// Metadata returns the value of key in the metadata of record i, "" when there is none.
// An encoded record stays encoded.
func (b *Batch) Metadata(i int, key string) string {
	if records, ok := b.Decoded(); ok {
		return records[i].Metadata.Get(key)
	}
	return b.encoded.metadata(i, key)
}

// Size returns the size of the content in bytes: Record.Size of records that were decoded when
// the batch was made, as they were when a size of it was asked for first, and the length of
// encoded ones.
func (b *Batch) Size() int {
	size, _ := b.sizes()
	return size
}

// Content returns the sum of Record.Content, as it was when Size would have been computed.
func (b *Batch) Content() int {
	_, content := b.sizes()
	return content
}

func (b *Batch) sizes() (size, content int) {
	if b.encoded == nil {
		b.sized.Do(b.measure)
	}
	return b.size, b.content
}

// measure sets size, content and objects of a batch that was made of decoded records.
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

// The memory of one record without its content, roughly: its own and that of its metadata, and of a small object,
// when decoded; its place in the message when encoded.
const (
	decodedOverhead = 400
	objectOverhead  = 200
	encodedOverhead = 20
)

// Memory estimates the bytes of memory that the batch takes.
func (b *Batch) Memory() int {
	if records, ok := b.Decoded(); ok {
		return max(b.memory, b.Size()+len(records)*decodedOverhead+b.structured()*objectOverhead)
	}
	return b.Size() + len(b.encoded.spans)*encodedOverhead
}

// structured returns how many decoded records have structured data.
func (b *Batch) structured() int {
	if b.encoded != nil {
		return b.Len() // which of them had some is not known
	}
	b.sizes()
	return b.objects
}

// Records returns the records, decoding them if need be: from then on the batch is a
// decoded one. They belong to the batch.
func (b *Batch) Records() ([]Record, error) {
	if records, ok := b.Decoded(); ok {
		return records, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if records, ok := b.Decoded(); ok {
		return records, nil
	}
	records, err := b.encoded.decode()
	if err != nil {
		return nil, err
	}
	b.decoded.Store(&records)
	return records, nil
}

// Slice returns the records i to j-1 as a batch that shares them with b.
func (b *Batch) Slice(i, j int) *Batch {
	if records, ok := b.Decoded(); ok {
		return NewBatch(records[i:j:j])
	}
	e := b.encoded.slice(i, j)
	return newEncoded(e)
}

// Clone returns a copy that shares nothing with b that either could change.
func (b *Batch) Clone() *Batch {
	records, ok := b.Decoded()
	if !ok {
		return &Batch{encoded: b.encoded.slice(0, b.Len()), size: b.size, content: b.content}
	}
	clones := make([]Record, len(records))
	for i := range records {
		clones[i] = records[i].Clone()
	}
	return NewBatch(clones)
}

// SetMetadataDefault gives the metadata key of every record the value unless it has a
// value already. Encoded records stay encoded. It changes the batch: it is for the
// batch's only holder.
func (b *Batch) SetMetadataDefault(key, value string) {
	records, ok := b.Decoded()
	if !ok {
		b.encoded.setDefault(key, value)
	}
	for i := range records {
		records[i].Metadata.SetDefault(key, value)
	}
}

// SetMetadata gives the metadata key of every record the value, as SetMetadataDefault does. Encoded records are decoded
// when one has another value.
func (b *Batch) SetMetadata(key, value string) error {
	b.SetMetadataDefault(key, value)
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
	records, ok := b.Decoded()
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
