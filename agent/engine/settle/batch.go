package settle

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Batch is an in-flight batch: on its way from its source to every destination. It belongs
// to the Tracker that made it, which uses it again when all of it is settled.
type Batch struct {
	ReadAt    time.Time
	SettledAt time.Time     // when a destination settled some of it last
	Records   *record.Batch // what the destinations get
	Origins   []int32       // index of the record read for each of Records; nil: one to one

	first     uint64           // records read before it
	n         int              // records read in it
	positions record.Positions // of the records read
	settled   []int            // per destination, how many of Records are settled
	refused   []int32          // indices of records read that were refused
	size      int              // memory that it takes
}

// Read returns how many records were read in the batch.
func (b *Batch) Read() int { return b.n }

// Size returns the memory that the batch takes.
func (b *Batch) Size() int { return b.size }

// Origin returns the index of the record read that record i of Records came from.
func (b *Batch) Origin(i int) int {
	if b.Origins != nil {
		return int(b.Origins[i])
	}
	return i
}

// Refuse marks the record read with this index as refused.
func (b *Batch) Refuse(index int) { b.refused = append(b.refused, int32(index)) }

// Refused returns how many records were marked as refused.
func (b *Batch) Refused() int { return len(b.refused) }

// done returns how many of the records read are settled by every destination without a
// gap.
func (b *Batch) done() int {
	kept := b.n
	if b.Origins != nil {
		kept = len(b.Origins)
	}
	done := kept
	for _, s := range b.settled {
		done = min(done, s)
	}
	switch {
	case done == kept:
		return b.n
	case b.Origins != nil:
		return int(b.Origins[done])
	}
	return done
}

// refusedBetween counts the refused records with an index in [from, to).
func (b *Batch) refusedBetween(from, to int) (n int) {
	for _, i := range b.refused {
		if int(i) >= from && int(i) < to {
			n++
		}
	}
	return n
}

// Range is a settled range: one in-flight batch or several small ones that are settled. Of
// their records only the positions are kept.
type Range struct {
	ReadAt    time.Time // of the first batch
	SettledAt time.Time // of the first batch
	N         int       // records

	first     uint64
	positions record.Positions
}

const (
	// A settled range takes in batches that settle soon after each other, while it has few
	// records: a source that reads one at a time would otherwise leave much behind each.
	rangeRecords = 256
	rangeTime    = time.Millisecond
)

// takes reports whether the records of b, which come next, may join r.
func (r *Range) takes(b *Batch) bool {
	return r.N+b.n <= rangeRecords && b.SettledAt.Sub(r.SettledAt) < rangeTime
}
