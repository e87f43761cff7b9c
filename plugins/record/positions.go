package record

// Positions is a list of positions in two allocations. It can be kept long after the records were freed.
type Positions struct {
	buf  []byte
	ends []uint32
}

// PositionsOf returns a copy of the positions of b's records.
func PositionsOf(b *Batch) Positions { return AppendPositions(Positions{}, b) }

// AppendPositions appends a copy of the positions of b's records to p.
func AppendPositions(p Positions, b *Batch) Positions {
	n := b.Len()
	if cap(p.ends)-len(p.ends) < n {
		p.ends = append(make([]uint32, 0, len(p.ends)+n), p.ends...)
	}
	for i := range n {
		if start := len(p.buf); i == 1 && cap(p.buf)-start < start*(n-1) {
			p.buf = append(make([]byte, 0, (start+4)*n), p.buf...)
		}
		p.buf = append(p.buf, b.Position(i)...)
		p.ends = append(p.ends, uint32(len(p.buf)))
	}
	return p
}

// Append appends a copy of the positions q to p. Results of p.At stay valid.
func (p Positions) Append(q Positions) Positions {
	start := uint32(len(p.buf))
	p.buf = append(p.buf, q.buf...)
	for _, end := range q.ends {
		p.ends = append(p.ends, start+end)
	}
	return p
}

// Empty returns an empty list that reuses the memory of p. Results of p.At become invalid.
func (p Positions) Empty() Positions { return Positions{p.buf[:0], p.ends[:0]} }

// Len returns the number of positions.
func (p Positions) Len() int { return len(p.ends) }

// At returns position i. The caller must not change it.
func (p Positions) At(i int) Position {
	start := uint32(0)
	if i > 0 {
		start = p.ends[i-1]
	}
	return Position(p.buf[start:p.ends[i]:p.ends[i]])
}
