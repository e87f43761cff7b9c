package record

import "slices"

// Join returns a batch of all records of batches, in order. The batch is encoded if all batches are. The given batches
// stay valid.
func Join(batches []*Batch) (*Batch, error) {
	if len(batches) == 1 {
		return batches[0], nil
	}
	n, size, content := 0, 0, 0
	for _, b := range batches {
		n, size, content = n+b.Len(), size+b.Size(), content+b.Content()
	}
	if !slices.ContainsFunc(batches, isParsed) {
		return joinEncoded(batches, n, size)
	}
	records, objects := make([]Record, 0, n), 0
	for _, b := range batches {
		r, err := b.Records()
		if err != nil {
			return nil, err
		}
		records, objects = append(records, r...), objects+b.structured()
	}
	joined := NewBatch(records)
	joined.sized.Do(func() { // decoding changes the size of records
		joined.size, joined.content, joined.objects = size, content, objects
	})
	return joined, nil
}

func isParsed(b *Batch) bool {
	_, ok := b.parsed()
	return ok
}

// joinEncoded writes all records into one buffer.
func joinEncoded(batches []*Batch, n, size int) (*Batch, error) {
	buf := make([]byte, 0, size+n*64)
	for _, b := range batches {
		buf = b.encoded.appendWire(buf, 0, b.Len())
	}
	joined, err := NewEncodedBatch(buf)
	if err != nil {
		return nil, err
	}
	joined.size = size
	return joined, nil
}
