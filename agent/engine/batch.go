package engine

import (
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Batch is an in-flight batch: a batch on its way from its source to every destination, or an emission of a processor,
// which takes the same way. It belongs to the Tracker that made it, which reuses it when it is completely settled.
//
// The inputs of a batch are the records from which it was made. Processors make several pieces of an input, or none,
// and may hold it: an input is settled when no piece is in flight or held.
type Batch struct {
	ReadAt    time.Time
	SettledAt time.Time     // when a destination last settled records
	Records   *record.Batch // the records for the destinations
	Origins   []int32       // index of the input of each of Records, ascending; nil: one to one
	Owner     any           // stays when the batch is reused
	Observers []Observer    // of the batch as a whole

	trace     *partTrace       // nil: not traced
	first     uint64           // number of records read before it
	n         int              // number of inputs
	positions record.Positions // of the inputs, unless they are lines
	lines     record.Lines     // the inputs; nil: records
	branches  []branch         // by destination
	refused   []int32          // indices of refused inputs
	original  *record.Batch    // copies of the inputs as they were read; nil: not kept
	held      []uint32         // number of held pieces by index of input; nil if none was held
	low       int              // number of settled inputs, counted from the first without a gap
	size      int              // memory of the batch in bytes
	emitted   bool
	complete  bool // for an emission: completely settled
}

// Observer follows a batch as a whole. Each method is called once, in this order, and must not call the Tracker.
type Observer interface {
	// Settled is called when all records of the batch are settled. Nothing refers to the batch any more.
	Settled()
	// Committed is called when a committed position covers all records of the batch: they are not read again.
	Committed()
}

// branch is the way of a batch to one destination.
type branch struct {
	settled int
	own     bool    // the processors of the destination changed its records
	origins []int32 // if own: as Batch.Origins
	total   int     // if own: number of records for the destination
}

// Sequence returns the number of an input among the records of the source. The batch must have been added to its
// Tracker.
func (b *Batch) Sequence(input int) uint64 { return b.first + uint64(input) + 1 }

// Inputs returns the number of records from which the batch was made.
func (b *Batch) Inputs() int { return b.n }

// Emitted reports whether the batch is an emission of a processor.
func (b *Batch) Emitted() bool { return b.emitted }

// Size returns the memory of the batch in bytes.
func (b *Batch) Size() int { return b.size }

// Origin returns the index of the input from which record i for a destination was made.
func (b *Batch) Origin(destination, i int) int {
	if _, origins := b.branch(destination); origins != nil {
		return int(origins[i])
	}
	return i
}

// Pieces returns how many of the records for a destination were made from an input, and how many such records come
// before record i.
func (b *Batch) Pieces(destination, input, i int) (pieces, before int) {
	total, origins := b.branch(destination)
	if origins == nil {
		return 1, 0
	}
	from, _ := slices.BinarySearch(origins, int32(input))
	for to := from; to < total && int(origins[to]) == input; to++ {
		pieces++
	}
	return pieces, i - from
}

// SettledBy returns how many records of the batch a destination has settled.
func (b *Batch) SettledBy(destination int) int { return b.branches[destination].settled }

// Refuse marks an input as refused, and reports whether it was not marked before.
func (b *Batch) Refuse(input int) bool {
	if slices.Contains(b.refused, int32(input)) {
		return false
	}
	b.refused = append(b.refused, int32(input))
	return true
}

// IsRefused reports whether an input was marked as refused.
func (b *Batch) IsRefused(input int) bool { return slices.Contains(b.refused, int32(input)) }

// Refused returns how many inputs were marked as refused.
func (b *Batch) Refused() int { return len(b.refused) }

// KeepOriginal copies the inputs, before processors change them.
func (b *Batch) KeepOriginal() {
	b.original = b.Records.Clone()
	b.size += b.original.Memory()
}

// AsRead returns an input as it was read, or nil if it was not kept.
func (b *Batch) AsRead(input int) *record.Record {
	if b.original == nil {
		return nil
	}
	records, err := b.original.Records()
	if err != nil { // impossible: the batch was decoded for the processors
		return nil
	}
	return &records[input]
}

// Hold counts a piece of an input that a processor holds.
func (b *Batch) Hold(input int) {
	if b.held == nil {
		b.held = make([]uint32, b.n)
	}
	b.held[input]++
}

// position returns the position of an input.
func (b *Batch) position(input int) record.Position {
	if b.lines != nil {
		return b.lines.Position(input)
	}
	return b.positions.At(input)
}

func (b *Batch) branch(destination int) (total int, origins []int32) {
	br := &b.branches[destination]
	switch {
	case br.own:
		return br.total, br.origins
	case b.Origins != nil:
		return len(b.Origins), b.Origins
	}
	return b.n, nil
}

// done returns the number of settled inputs, counted from the first without a gap. It never decreases.
func (b *Batch) done() int {
	b.low = max(b.low, b.settledUpTo())
	return b.low
}

func (b *Batch) settledUpTo() int {
	done := b.n
	for d := range b.branches {
		total, origins := b.branch(d)
		switch settled := b.branches[d].settled; {
		case settled == total:
		case origins != nil:
			done = min(done, int(origins[settled]))
		default:
			done = min(done, settled)
		}
	}
	for i := b.low; i < min(done, len(b.held)); i++ {
		if b.held[i] > 0 {
			return i
		}
	}
	return done
}

// refusedBetween counts the refused inputs with an index in [from, to).
func (b *Batch) refusedBetween(from, to int) (n int) {
	for _, i := range b.refused {
		if int(i) >= from && int(i) < to {
			n++
		}
	}
	return n
}

// Range is a settled range: one settled in-flight batch or several small ones. It keeps only the positions of the
// records.
type Range struct {
	ReadAt    time.Time // of the first batch
	SettledAt time.Time // of the first batch
	N         int       // records

	first     uint64
	positions record.Positions
	last      record.Position // of the last record, the only one that is known, if the records were lines
}

// position returns the position of record i.
func (r *Range) position(i int) record.Position {
	if r.last != nil {
		return r.last
	}
	return r.positions.At(i)
}

const (
	// A settled range absorbs batches that settle soon after each other, while it has few records: a source that reads
	// one record at a time would otherwise leave much memory behind each.
	rangeRecords = 256
	rangeTime    = time.Millisecond
)

// takes reports whether the records of b, which come next, may join r.
func (r *Range) takes(b *Batch) bool {
	return r.last == nil && b.lines == nil && r.N+b.n <= rangeRecords && b.SettledAt.Sub(r.SettledAt) < rangeTime
}
