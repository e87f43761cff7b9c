package sdk

import (
	"context"
	"iter"

	"github.com/conduit-agent/conduit/plugins/record"
)

// ProcessBatch is a run of records, in order, that a Processor decides about. It belongs
// to the processor until Process returns.
//
// What follows for the record as it was read from its source:
//
//   - A record that goes on is settled when every destination has it.
//   - A filtered record is settled at once.
//   - A refused record goes to the dead-letter queue and is settled when that has it.
//   - A record that was replaced by pieces is settled when all pieces are, however many
//     pieces those become later. When a later processor or a destination refuses a piece,
//     the record that was replaced goes to the dead-letter queue, once, and its pieces that
//     have not reached a destination are dropped.
//   - A held record is settled when what was emitted for it is settled. A held record that
//     nothing was emitted for when the pipeline stops is read again at the next start.
//
// The position of a source is saved only up to the first record that is not settled.
//
// Order: what goes on keeps the order of the batch, pieces stand in the place of the
// record they replace, and what was emitted comes behind, in the order of the calls.
type ProcessBatch struct {
	token   any
	records []record.Record
	selects []int32 // the records that are in the batch; nil: all
	held    func(i int32) Held
	fates   []Fate // by index in records; empty while all go on
	emitted []Emission
	take    func(i int32, n int) error // counts memory allocated for a record; nil: not counted
	follow  *Progress                  // of the processor; nil: it is not followed
	current int                        // the record that Records or Each is at
}

// FateKind says what becomes of a record.
type FateKind uint8

// What may become of a record. The zero FateKind is what becomes of one about which the
// processor says nothing.
const (
	Kept      FateKind = iota // goes on, perhaps changed
	Filtered                  // ends here
	Refused                   // goes to the dead-letter queue
	Replaced                  // its pieces go on
	HeldBack                  // waits for an Emission
	Postponed                 // comes again in a later batch, as it is; see Postpone
)

// Fate is what becomes of one record.
type Fate struct {
	Kind   FateKind
	Err    error           // of a refused record
	Pieces []record.Record // of a replaced one
}

// Held names a record, or a piece of one, that a processor holds. It is comparable. Its
// fields are the host's.
type Held struct {
	Batch any // the batch the record came in
	Index int32
}

// Emission is what a processor makes of records that it held.
type Emission struct {
	Records []record.Record // go on; none: the held records are filtered
	Settles []Held          // the held records that are settled when Records are; each is named once
}

// NewProcessBatch returns a batch of the records with these indices, all of them when
// selects is nil. The token is what Token returns. It is for hosts, and for tests of
// processors.
func NewProcessBatch(token any, records []record.Record, selects []int32) *ProcessBatch {
	b := &ProcessBatch{}
	b.Reset(token, records, selects)
	return b
}

// Reset makes b what NewProcessBatch returns, and keeps its memory. It is for hosts.
func (b *ProcessBatch) Reset(token any, records []record.Record, selects []int32) {
	clear(b.fates)
	*b = ProcessBatch{token: token, records: records, selects: selects, held: b.held, fates: b.fates[:0],
		take: b.take, follow: b.follow}
}

// OnRecord has p follow the processor. It is for hosts.
func (b *ProcessBatch) OnRecord(p *Progress) { b.follow = p }

// OnTake has take decide what Take returns for the index of a record. Called with 0 bytes, take returns an error if the
// records from this one on have to wait for a later batch. It is for hosts.
func (b *ProcessBatch) OnTake(take func(i int32, n int) error) { b.take = take }

// Take counts n bytes of memory that the processor is about to allocate for record i, in addition to the bytes that it
// and earlier processors allocated for the record. It returns an error for Refuse if the host allows no more. A
// processor that can make much of a little calls it before it does.
func (b *ProcessBatch) Take(i, n int) error {
	if b.take == nil || n <= 0 {
		return nil
	}
	return b.take(b.at(i), n)
}

// TakeHere is Take for the record that Records or Each is at.
func (b *ProcessBatch) TakeHere(n int) error { return b.Take(b.current, n) }

// Postpone reports whether the records before record i have used up the memory that the host allows for a batch. The
// processor then returns without a decision about record i and those behind it: they come again in a later batch, once
// the others have gone on. The first record of a batch is never postponed. A processor that can make much of a little
// calls Postpone before each record; Records and Each do so themselves.
func (b *ProcessBatch) Postpone(i int) bool {
	if i == 0 || b.take == nil || b.take(b.at(i), 0) == nil {
		return false
	}
	for ; i < b.Len(); i++ {
		b.decide(i, Fate{Kind: Postponed})
	}
	return true
}

// OnHold makes Hold return what name returns for the index of a record. It is for hosts.
func (b *ProcessBatch) OnHold(name func(i int32) Held) { b.held = name }

// Token identifies the batch among all outstanding ones. A CommitObserver gets it when the batch is committed. It is
// comparable. It is nil for a batch whose commit is not reported: an empty one, and an emission of another processor
// that will emit more for the same records.
func (b *ProcessBatch) Token() any { return b.token }

// Len returns the number of records. It is 0 when a deadline has come.
func (b *ProcessBatch) Len() int {
	if b.selects != nil {
		return len(b.selects)
	}
	return len(b.records)
}

// Record returns record i, which may be changed until Process returns: all of it but its
// Position. Turning to a record is progress: it begins the time that processors.timeout gives the processor for one.
func (b *ProcessBatch) Record(i int) *record.Record {
	if b.follow != nil && b.follow.state.Load() == asked {
		b.follow.Turn(i)
	}
	return &b.records[b.at(i)]
}

// Records yields the records with their numbers, until ctx has ended: Process returns ctx.Err() behind the loop. It
// postpones the rest when Postpone does.
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

// EachUntil is Each that ends with ctx: it returns ctx.Err() then, and visits no more records.
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

// Each calls do for every record, and refuses those for which it fails. It returns nil.
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

// Filter ends record i here: it counts as handled.
func (b *ProcessBatch) Filter(i int) { b.decide(i, Fate{Kind: Filtered}) }

// Refuse sends record i to the dead-letter queue with err as the reason. What was changed
// in it is seen there.
func (b *ProcessBatch) Refuse(i int, err error) { b.decide(i, Fate{Kind: Refused, Err: err}) }

// Replace puts the pieces in the place of record i, which must stay unchanged: it goes to the dead-letter queue when a
// piece is refused. The pieces share no map, slice or byte with it, or with each other, that a later processor could
// change. They get its position. Without pieces the record is filtered. Each piece counts PieceBytes as in Take; when
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

// Hold keeps record i back until an Emission names it. The record must stay as it is from
// then on, also after Process has returned: it may go to the dead-letter queue. The
// processor copies what it needs of it.
func (b *ProcessBatch) Hold(i int) Held {
	b.decide(i, Fate{Kind: HeldBack})
	if b.held != nil {
		return b.held(b.at(i))
	}
	return Held{b.token, b.at(i)}
}

// Emit lets records go on that were made of records held in this or in earlier batches.
// When one of them is refused later, all records that e settles go to the dead-letter queue.
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

// Fates returns what becomes of each record by its index in the slice that the batch was
// made of, nil when all go on. It is for hosts, and valid until Reset.
func (b *ProcessBatch) Fates() []Fate {
	if len(b.fates) == 0 {
		return nil
	}
	return b.fates
}

// Emitted returns what was emitted. It is for hosts.
func (b *ProcessBatch) Emitted() []Emission { return b.emitted }
