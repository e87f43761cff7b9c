package record

// Batch is a run of records of one source, in the source's order. It moves by
// ownership: after a batch is handed on, the giver no longer touches it.
type Batch struct {
	records []Record
	size    int
}

// NewBatch returns a batch of the given records, which it keeps.
func NewBatch(records []Record) *Batch {
	b := &Batch{records: records}
	for i := range records {
		b.size += records[i].Size()
	}
	return b
}

// Len returns the number of records.
func (b *Batch) Len() int { return len(b.records) }

// Position returns the position of record i.
func (b *Batch) Position(i int) Position { return b.records[i].Position }

// Size returns the size of the content in bytes (Record.Size).
func (b *Batch) Size() int { return b.size }

// Records returns the records, decoding them if need be. They belong to the batch.
func (b *Batch) Records() ([]Record, error) { return b.records, nil }
