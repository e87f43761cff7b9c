package record

// Positions is a list of positions in two allocations, so that it can be kept long
// after the records themselves are gone.
type Positions struct {
	buf  []byte
	ends []uint32
}

// PositionsOf returns a copy of the positions of b's records.
func PositionsOf(b *Batch) Positions {
	n := b.Len()
	p := Positions{ends: make([]uint32, 0, n)}
	for i := range n {
		if i == 1 {
			p.buf = append(make([]byte, 0, (len(p.buf)+4)*n), p.buf...)
		}
		p.buf = append(p.buf, b.Position(i)...)
		p.ends = append(p.ends, uint32(len(p.buf)))
	}
	return p
}

// Len returns the number of positions.
func (p Positions) Len() int { return len(p.ends) }

// At returns position i. It is not to be changed.
func (p Positions) At(i int) Position {
	start := uint32(0)
	if i > 0 {
		start = p.ends[i-1]
	}
	return Position(p.buf[start:p.ends[i]:p.ends[i]])
}
