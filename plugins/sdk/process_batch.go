package sdk

import (
	"context"
	"iter"

	"github.com/conduit-agent/conduit/plugins/record"
)

// ProcessBatch is a sequence of records, in order, that a Processor decides about. It belongs to the processor until
// Process returns.
//
// The decision determines when the record read from the source is settled:
//
//   - A kept record is settled when every destination has it.
//   - A filtered record is settled at once.
//   - A refused record goes to the dead-letter queue and is settled when the queue has it.
//   - A record that was replaced by pieces is settled when all pieces are, even if later
//     processors replace those pieces in turn. When a later processor or a destination
//     refuses a piece, the replaced record goes to the dead-letter queue, once, and its pieces
//     that have not reached a destination are dropped.
//   - A held record is settled when the records emitted for it are settled. A held record
//     without emitted records when the pipeline stops is read again at the next start.
//
// The position of a source is saved only up to the first record that is not settled.
//
// The records that continue keep the order of the batch. Pieces take the place of the record they replace. Emitted
// records follow, in the order of the calls.
type ProcessBatch struct {
	token   any
	records []record.Record
	selects []int32 // indices of the records in the batch; nil: all
	held    func(i int32) Held
	fates   []Fate // by index in records; empty while all records are kept
	emitted []Emission
	take    func(i int32, n int) error // reserves memory allocated for a record; nil: not counted
	follow  *Progress                  // progress of the processor; nil: not tracked
	current int                        // current record of Records or Each
}

// FateKind is a decision about a record.
type FateKind uint8

// The decisions about a record. The zero FateKind applies if the processor makes no decision.
const (
	Kept      FateKind = iota // continues, perhaps changed
	Filtered                  // ends here
	Refused                   // goes to the dead-letter queue
	Replaced                  // its pieces continue
	HeldBack                  // waits for an Emission
	Postponed                 // returns unchanged in a later batch; see Postpone
)

// Fate is the decision about one record.
type Fate struct {
	Kind   FateKind
	Err    error           // reason for a refused record
	Pieces []record.Record // pieces of a replaced record
}

// Held identifies a record, or a piece of one, that a processor holds. It is comparable. Its fields are for the host.
type Held struct {
	Batch any // batch that contained the record
	Index int32
}

// Emission is the output of a processor for records that it held.
type Emission struct {
	Records []record.Record // records that continue; none: the held records are filtered
	Settles []Held          // held records that are settled when Records are; each appears once
}

// NewProcessBatch returns a batch of the records with these indices, all records when selects is nil. The token is the
// result of Token. It is for hosts, and for tests of processors.
func NewProcessBatch(token any, records []record.Record, selects []int32) *ProcessBatch {
	b := &ProcessBatch{}
	b.Reset(token, records, selects)
	return b
}

// Reset reinitializes b like NewProcessBatch, and reuses its memory. It is for hosts.
func (b *ProcessBatch) Reset(token any, records []record.Record, selects []int32) {
	clear(b.fates)
	*b = ProcessBatch{token: token, records: records, selects: selects, held: b.held, fates: b.fates[:0],
		take: b.take, follow: b.follow}
}

// OnRecord sets the Progress that tracks the processor. It is for hosts.
func (b *ProcessBatch) OnRecord(p *Progress) { b.follow = p }

// OnTake sets the function that implements Take, for the index of a record. With 0 bytes, it returns an error if this
// record and all later ones have to wait for a later batch. It is for hosts.
func (b *ProcessBatch) OnTake(take func(i int32, n int) error) { b.take = take }

// Take reserves n bytes of memory that the processor is about to allocate for record i, in addition to the bytes that
// it and earlier processors allocated for the record. It returns an error for Refuse if the host allows no more. A
// processor whose output can be much larger than its input calls Take before it allocates.
func (b *ProcessBatch) Take(i, n int) error {
	if b.take == nil || n <= 0 {
		return nil
	}
	return b.take(b.at(i), n)
}

// TakeHere is Take for the current record of Records or Each.
func (b *ProcessBatch) TakeHere(n int) error { return b.Take(b.current, n) }

// Postpone reports whether the records before record i have used up the memory that the host allows for a batch. In
// this case the processor returns without a decision about record i and all later ones. These return in a later batch,
// once the others have continued. The first record of a batch is never postponed. A processor whose output can be much
// larger than its input calls Postpone before each record; Records and Each do so themselves.
func (b *ProcessBatch) Postpone(i int) bool {
	if i == 0 || b.take == nil || b.take(b.at(i), 0) == nil {
		return false
	}
	for ; i < b.Len(); i++ {
		b.decide(i, Fate{Kind: Postponed})
	}
	return true
}

// OnHold sets the function that implements Hold, for the index of a record. It is for hosts.
func (b *ProcessBatch) OnHold(name func(i int32) Held) { b.held = name }

// Token identifies the batch among all outstanding ones. A CommitObserver receives it when the batch is committed. It
// is comparable. It is nil for a batch whose commit is not reported: an empty one, and an emission of another processor
// that will emit more for the same records.
func (b *ProcessBatch) Token() any { return b.token }

// Len returns the number of records. It is 0 when Process is called because of a deadline.
func (b *ProcessBatch) Len() int {
	if b.selects != nil {
		return len(b.selects)
	}
	return len(b.records)
}

// Record returns record i. Everything but its Position may be changed until Process returns. Calling Record for a later
// record counts as progress: it restarts the time limit processors.timeout.
func (b *ProcessBatch) Record(i int) *record.Record {
	if b.follow != nil && b.follow.state.Load() == asked {
		b.follow.Turn(i)
	}
	return &b.records[b.at(i)]
}

// Records yields the records with their indices until ctx ends; then Process returns ctx.Err() after the loop. It stops
// when Postpone reports true, which postpones the rest.
func (b *ProcessBatch) Records(ctx context.Context) iter.Seq2[int, *record.Record] {
	return func(yield func(int, *record.Record) bool) {
		for i := range b.Len() {
			if ctx.Err() != nil || b.Postpone(i) {
				return
			}
			b.current = i
			if !yield(i, b.Record(i)) {
				return
			}
		}
	}
}

// EachUntil is like Each, but when ctx ends it visits no more records and returns ctx.Err().
func (b *ProcessBatch) EachUntil(ctx context.Context, do func(r *record.Record) error) error {
	for i, r := range b.Records(ctx) {
		if err := do(r); err != nil {
			b.Refuse(i, err)
		}
	}
	return ctx.Err()
}

func (b *ProcessBatch) at(i int) int32 {
	if b.selects != nil {
		return b.selects[i]
	}
	return int32(i)
}

// Each calls do for every record, and refuses the records for which it fails. It returns nil.
func (b *ProcessBatch) Each(do func(r *record.Record) error) error {
	for i := range b.Len() {
		if b.Postpone(i) {
			break
		}
		b.current = i
		if err := do(b.Record(i)); err != nil {
			b.Refuse(i, err)
		}
	}
	return nil
}

// Filter drops record i, which counts as handled.
func (b *ProcessBatch) Filter(i int) { b.decide(i, Fate{Kind: Filtered}) }

// Refuse sends record i to the dead-letter queue with err as the reason. The dead letter contains the changes made to
// the record.
func (b *ProcessBatch) Refuse(i int, err error) { b.decide(i, Fate{Kind: Refused, Err: err}) }

// Replace replaces record i by the pieces. Record i must stay unchanged, because it goes to the dead-letter queue if a
// piece is refused. The pieces share no map, slice or byte with it, or with each other, that a later processor could
// change. They get its position. Without pieces the record is filtered. Each piece counts as PieceBytes in Take; if
// they exceed the budget, the record is refused.
func (b *ProcessBatch) Replace(i int, pieces []record.Record) {
	if len(pieces) == 0 {
		b.Filter(i)
		return
	}
	if err := b.Take(i, PieceBytes*len(pieces)); err != nil {
		b.Refuse(i, err)
		return
	}
	for p := range pieces {
		pieces[p].Position = b.Record(i).Position
	}
	b.decide(i, Fate{Kind: Replaced, Pieces: pieces})
}

// PieceBytes is the memory of a small record.
const PieceBytes = 400

// Hold keeps record i until an Emission names it. The record must not change from then on, even after Process has
// returned, because it may go to the dead-letter queue. The processor copies the parts that it needs.
func (b *ProcessBatch) Hold(i int) Held {
	b.decide(i, Fate{Kind: HeldBack})
	if b.held != nil {
		return b.held(b.at(i))
	}
	return Held{b.token, b.at(i)}
}

// Emit sends on records made from records held in this or in earlier batches. If any is refused later, all
// records that e settles go to the dead-letter queue.
func (b *ProcessBatch) Emit(e Emission) { b.emitted = append(b.emitted, e) }

func (b *ProcessBatch) decide(i int, f Fate) {
	if n := len(b.records); len(b.fates) < n {
		if cap(b.fates) < n {
			b.fates = make([]Fate, n)
		}
		b.fates = b.fates[:n]
	}
	b.fates[b.at(i)] = f
}

// Fates returns the decisions by the index of the record in the slice that the batch was made of, nil if all records
// are kept. It is for hosts, and valid until Reset.
func (b *ProcessBatch) Fates() []Fate {
	if len(b.fates) == 0 {
		return nil
	}
	return b.fates
}

// Emitted returns the emissions. It is for hosts.
func (b *ProcessBatch) Emitted() []Emission { return b.emitted }
