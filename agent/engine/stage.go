package engine

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// stage is a place for a chain of processors: behind a source, behind the fan-in of all
// sources, or before a destination.
type stage struct{ *chainSlot }

func newStage(id string) stage { return stage{newChainSlot(id)} }

// token identifies a batch that a chain was given. It is a settle.Observer of the batch if the chain observes commits.
type token struct {
	inFlight
	origins []int32 // index of the input of each record that the chain got; nil: one to one
	stage   stage   // the stage of the chain
}

// Settled implements settle.Observer. The chain may keep the token until the position is saved; the token no longer
// keeps the records in memory.
func (t *token) Settled() { t.inFlight, t.origins = inFlight{}, nil }

// Committed implements settle.Observer.
func (t *token) Committed() { t.stage.NoteCommitted(t) }

func (t *token) input(i int32) int {
	if t.origins == nil {
		return int(i)
	}
	return int(t.origins[i])
}

// process runs the chain over records of f, with their origins, for one destination or for all destinations. It sends
// refused records to the dead-letter queue. It returns f, which then has the chain in its passage, with the output.
func (st stage) process(ctx context.Context, f inFlight, records []record.Record,
	origins []int32) (inFlight, made, error) {
	g := &given{Records: records, Origins: origins}
	f.passage = f.passage.With(g)
	t := &token{f, origins, st}
	n, begin := len(records), f.trace.begin()
	out, err := st.Process(ctx, t, records)
	f.trace.processed(st.ID, n, begin, err)
	if err != nil {
		return f, made{}, failedInProcessors(st.ID, err)
	}
	if st.Observes() {
		f.observe(t)
	}
	g.Keeper = out.Keeper
	f.hold(g, t, out.Held)
	m := made{Records: out.Records, Origins: composeOrigins(origins, out.Origins), Emitted: out.Emitted}
	if len(out.Refused) > 0 {
		refused, err := f.src().run.refuseAll(ctx, t, out.Refused)
		if err != nil {
			return f, made{}, err
		}
		m.Drop(refused)
	}
	return f, m, nil
}

// attend notifies the chain of committed batches and returns the emissions that are due.
func (st stage) attend(ctx context.Context, r *run) ([]sdk.Emission, error) {
	out, err := st.Attend(ctx)
	if err != nil {
		return nil, failedInProcessors(st.ID, err)
	}
	_, err = r.refuseAll(ctx, nil, out.Refused)
	return out.Emitted, err
}
