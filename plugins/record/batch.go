package record

import "fmt"

// Batch is a run of records of one source, in the source's order. It moves by
// ownership: after a batch is handed on, the giver no longer touches it. Between two
// connectors that run as processes it keeps its records encoded as they came.
type Batch struct {
	records []Record // when encoded is nil
	encoded *encoded
	size    int
}

// NewBatch returns a batch of the given records, which it keeps.
func NewBatch(records []Record) *Batch {
	return &Batch{records: records, size: sizeOf(records)}
}

func sizeOf(records []Record) (n int) {
	for i := range records {
		n += records[i].Size()
	}
	return n
}

// Len returns the number of records.
func (b *Batch) Len() int {
	if b.encoded != nil {
		return len(b.encoded.spans)
	}
	return len(b.records)
}

// Position returns the position of record i. It is not to be changed.
func (b *Batch) Position(i int) Position {
	if b.encoded != nil {
		return b.encoded.position(i)
	}
	return b.records[i].Position
}

// Size returns the size of the content in bytes as it was when the batch was made:
// Record.Size of decoded records, the length of encoded ones.
func (b *Batch) Size() int { return b.size }

// Records returns the records, decoding them if need be: from then on the batch is a
// decoded one. They belong to the batch.
func (b *Batch) Records() ([]Record, error) {
	if b.encoded == nil {
		return b.records, nil
	}
	records, err := b.encoded.decode()
	if err != nil {
		return nil, err
	}
	b.records, b.encoded = records, nil
	return records, nil
}

// Slice returns the records i to j-1 as a batch that shares them with b.
func (b *Batch) Slice(i, j int) *Batch {
	if b.encoded != nil {
		e := b.encoded.slice(i, j)
		return &Batch{encoded: e, size: e.size()}
	}
	return NewBatch(b.records[i:j:j])
}

// Clone returns a copy that shares nothing with b that either could change.
func (b *Batch) Clone() *Batch {
	if b.encoded != nil {
		return &Batch{encoded: b.encoded.slice(0, b.Len()), size: b.size}
	}
	records := make([]Record, len(b.records))
	for i := range records {
		records[i] = b.records[i].Clone()
	}
	return &Batch{records: records, size: b.size}
}

// SetMetadataDefault gives the metadata key of every record the value unless it has a
// value already. Encoded records stay encoded.
func (b *Batch) SetMetadataDefault(key, value string) {
	if b.encoded != nil {
		b.encoded.setDefault(key, value)
		return
	}
	for i := range b.records {
		b.records[i].Metadata.SetDefault(key, value)
	}
}

// AppendWire appends the records i to j-1 to dst in the protobuf form that
// NewEncodedBatch reads.
func (b *Batch) AppendWire(dst []byte, i, j int) ([]byte, error) {
	if b.encoded != nil {
		return b.encoded.appendWire(dst, i, j), nil
	}
	for ; i < j; i++ {
		var start int
		var err error
		dst, start = openMessage(dst, 1)
		if dst, err = AppendWire(dst, &b.records[i]); err != nil {
			return dst, fmt.Errorf("cannot encode record %q: %w", b.records[i].Position, err)
		}
		dst = closeMessage(dst, start)
	}
	return dst, nil
}
