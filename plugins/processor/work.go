package processor

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// work is a run of records through the stages: a batch or an emission.
type work struct {
	chain *Chain
	token any    // token of a batch
	group *group // group of an emission; nil for a batch
	out   *connector.Outcome

	input   []record.Record // as given, but a split or held record is stored as it was then
	records []record.Record // the records that remain at this stage
	origins []int32         // records[i] was made from input[origins[i]]; nil: from input[i]

	original   []bool // by index of input: the record was split or held. Empty if none was
	refused    []bool // by index of input. Empty if none was refused
	refusedAll bool   // a record of an emission was refused

	budget int // limit of the bytes allocated for each record of input
	mu     sync.Mutex
	made   map[int32]int // bytes allocated so far, by index of input; guarded by mu
	total  int           // sum of made; guarded by mu
	most   int           // limit of total above which records wait; guarded by mu
}

// batchMemory returns the number of bytes that may be allocated for a batch before its remaining records must wait.
// budget is the limit for a record. Batches of usual records stay below the result.
func batchMemory(budget int) int { return max(budget/4, 32<<20) }

// extend begins a stage. The stage gets some memory even if earlier stages have used up the limit of the batch:
// otherwise each record would have to pass it alone.
func (w *work) extend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := batchMemory(w.budget)
	w.most = max(most, w.total+most/8)
}

var errFull = errors.New("the records before it take the memory of the batch")

// take counts n bytes before they are allocated for record i. If n is 0, it returns an error if this record and the
// following ones must wait.
func (w *work) take(i int32, n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == 0 {
		if w.total >= w.most {
			return errFull
		}
		return nil
	}
	if w.made == nil {
		w.made = make(map[int32]int)
	}
	origin := w.origin(i)
	if made := w.made[origin]; n > w.budget-made {
		return fmt.Errorf("the result of one record is too large: it would take %d MiB of memory, and may take %d (an "+
			"eighth of memory.limit, at most 256)",
			(made+n)>>20+1, w.budget>>20)
	}
	w.made[origin] += n
	w.total += n
	return nil
}

func (w *work) origin(i int32) int32 {
	if w.origins == nil {
		return i
	}
	return w.origins[i]
}

// name returns the name of record i while it is held.
func (w *work) name(i int32) sdk.Held {
	if w.group != nil {
		return sdk.Held{Batch: w.group, Index: w.origin(i)}
	}
	return sdk.Held{Batch: w.token, Index: w.origin(i)}
}

// apply applies the fates to the records. It returns the number of refused and postponed records.
func (w *work) apply(s *stage, fates []sdk.Fate) (left int) {
	n := len(w.records)
	fates = w.postpone(s, fates)
	for i := range fates {
		switch fates[i].Kind {
		case sdk.Replaced:
			n += len(fates[i].Pieces) - 1
		case sdk.Filtered, sdk.HeldBack:
			n--
		case sdk.Refused, sdk.Postponed:
			n--
			left++
		}
	}
	records, origins := make([]record.Record, 0, n), make([]int32, 0, n)
	wasRefused := false
	for i := range w.records {
		origin := w.origin(int32(i))
		switch f := &fates[i]; f.Kind {
		case sdk.Kept:
			records, origins = append(records, w.records[i]), append(origins, origin)
		case sdk.Filtered:
			s.stats.Filtered.Add(1)
		case sdk.Refused:
			s.stats.Refused.Add(1)
			w.refuse(s.id, i, f.Err)
			wasRefused = true
		case sdk.Replaced:
			w.keep(s.id, i)
			records = append(records, f.Pieces...)
			for range f.Pieces {
				origins = append(origins, origin)
			}
		case sdk.HeldBack:
			w.keep(s.id, i)
			w.hold(s, origin)
		}
	}
	w.records, w.origins = records, origins
	if wasRefused {
		w.dropRefused()
	}
	return left
}

// postpone queues the records starting with the first postponed one, which keeps their order. In the returned fates all
// these records are postponed. Each becomes a separate emission, so that each can be refused alone.
func (w *work) postpone(s *stage, fates []sdk.Fate) []sdk.Fate {
	first := slices.IndexFunc(fates, func(f sdk.Fate) bool { return f.Kind == sdk.Postponed })
	if first < 0 {
		return fates
	}
	n := slices.Index(w.chain.stages, s)
	for i := first; i < len(fates); i++ {
		q := queued{Emission: sdk.Emission{Records: w.records[i : i+1 : i+1]}, holder: n, first: n, postponed: true}
		switch fates[i].Kind {
		case sdk.Kept: // kept by another worker, or skipped by the condition, which it meets again
			if s.passed(i) {
				q.first++
			}
		case sdk.Replaced: // by another worker
			q.Records, q.first, q.postponed = fates[i].Pieces, n+1, false
		case sdk.Postponed:
		default:
			continue
		}
		w.keep(w.chain.stages[min(q.first, len(w.chain.stages)-1)].id, i)
		q.Settles = []sdk.Held{w.name(int32(i))}
		w.hold(s, w.origin(int32(i)))
		w.chain.queue(n, q)
		fates[i] = sdk.Fate{Kind: sdk.Postponed}
	}
	return fates
}

// passed reports whether the processor got record i in the last batch.
func (s *stage) passed(i int) bool {
	if s.condition == nil {
		return true
	}
	return slices.Contains(s.selected, int32(i))
}

// keep stores the current form of record i in the input. This form is refused if a piece of the record is refused.
func (w *work) keep(processor string, i int) {
	origin := w.origin(int32(i))
	if len(w.original) == 0 {
		w.original = make([]bool, len(w.input))
	}
	if !w.original[origin] {
		w.original[origin] = true
		w.input[origin] = w.records[i]
		if w.group == nil {
			if w.out.Keeper == nil {
				w.out.Keeper = map[int32]string{}
			}
			w.out.Keeper[origin] = processor
		}
	}
}

func (w *work) hold(s *stage, origin int32) {
	s.holding++
	if w.group != nil {
		w.group.held++
		return
	}
	w.out.Held = append(w.out.Held, origin)
}

func (w *work) refuse(processor string, i int, err error) {
	r := connector.Refusal{Index: w.origin(int32(i)), Record: w.records[i], Processor: processor, Entry: processor,
		Err: err}
	if w.group != nil {
		if !w.refusedAll {
			r.Index, r.Settles = -1, w.group.settles
			w.refusedAll = true
			w.out.Refused = append(w.out.Refused, r)
		}
		return
	}
	if len(w.refused) == 0 {
		w.refused = make([]bool, len(w.input))
	}
	if w.refused[r.Index] {
		return
	}
	w.refused[r.Index] = true
	if len(w.original) > 0 && w.original[r.Index] {
		r.Record, r.Entry = w.input[r.Index], w.out.Keeper[r.Index]
	}
	w.out.Refused = append(w.out.Refused, r)
}

// dropRefused drops the other pieces of refused records.
func (w *work) dropRefused() {
	if w.refusedAll {
		w.records, w.origins = nil, []int32{}
		return
	}
	n := 0
	for i, origin := range w.origins {
		if !w.refused[origin] {
			w.records[n], w.origins[n] = w.records[i], origin
			n++
		}
	}
	clear(w.records[n:])
	w.records, w.origins = w.records[:n], w.origins[:n]
}
