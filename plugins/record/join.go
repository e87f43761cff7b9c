package record

// Join returns a batch of all records of batches, in order. The batches stay valid.
func Join(batches []*Batch) (*Batch, error) {
	if len(batches) == 1 {
		return batches[0], nil
	}
	n, size := 0, 0
	for _, b := range batches {
		n, size = n+b.Len(), size+b.Size()
	}
	records := make([]Record, 0, n)
	for _, b := range batches {
		r, err := b.Records()
		if err != nil {
			return nil, err
		}
		records = append(records, r...)
	}
	return &Batch{records: records, size: size}, nil
}
