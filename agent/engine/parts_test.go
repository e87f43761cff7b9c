package engine

import "testing"

// Records pass processors in parts whose outputs have about the same size.
func TestParts(t *testing.T) {
	var p parts
	total, largest := 0, 0
	pass := func(n, bytesOfEach int) (sizes []int) {
		for n > 0 {
			size := p.next(n)
			p.made.Add(int64(size * bytesOfEach))
			total, largest = total+size, max(largest, size*bytesOfEach)
			p.passed(size)
			sizes = append(sizes, size)
			n -= size
		}
		return sizes
	}
	if sizes := pass(1000, 500); len(sizes) != 4 || sizes[0] != 1 || sizes[3] != 1000-1-16-256 {
		t.Errorf("the first batch passed as %v", sizes)
	}
	if sizes := pass(1000, 500); len(sizes) != 1 {
		t.Errorf("a batch of usual records passed as %v", sizes)
	}
	p = parts{}
	if largest = 0; len(pass(1000, 4<<20)) < 250 || largest > partBytes {
		t.Errorf("%d bytes came of a part, at most %d are to", largest, partBytes)
	}
	if sizes := pass(10, 100<<20); sizes[len(sizes)-1] != 1 {
		t.Errorf("large records passed as %v", sizes)
	}
	if sizes := pass(10_000, 10); len(sizes) > 6 {
		t.Errorf("small records after large ones passed as %v", sizes)
	}
}
