package deadletter

import (
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// maxSharedExact is up to which size a Letter has its record in binary, too: messages of a cluster are bounded.
const maxSharedExact = 128 << 10

// Whole returns it with its record in its JSON form alone, as it is shown.
func (l *Letter) Whole() rest.DeadLetter {
	one := l.DeadLetter
	one.Record = withoutExact(l.Record)
	return one
}

// Letter is a dead letter that is kept elsewhere than in a Store. It is whole: with its record and refusals.
type Letter struct {
	rest.DeadLetter
	Hash  []byte `json:"hash"` // of what makes it the same record refused at the same place
	Entry Entry  `json:"entry"`
	Edits int64  `json:"edits,omitempty"`
}

// maxSharedText is what is kept of the error of a refusal in a Letter.
const maxSharedText = 4 << 10

// NewLetter returns a dead letter without an id.
func NewLetter(d *spec.Declaration, l *engine.DeadLetter, at time.Time) *Letter {
	one := newDeadLetter(d, l, at)
	if len(one.body) > maxSharedExact {
		one.body = withoutExact(one.body)
	}
	one.refusal.Error = cut(one.refusal.Error, maxSharedText)
	return &Letter{
		DeadLetter: rest.DeadLetter{
			PipelineID: one.pipeline, Time: at, LastTime: at, Times: 1, SourceID: one.source, Stage: one.stage, RefusedBy: one.refusedBy,
			Generation: d.Generation, Digest: one.digest, Key: one.key, Error: one.refusal.Error, Stopped: one.stopped, Bytes: int64(len(one.body)),
			Refusals: []rest.Refusal{one.refusal}, Record: one.body,
		},
		Hash: one.hash, Entry: one.entry,
	}
}

// RefuseAgain notes that the dead letter was refused once more, as by says.
func (l *Letter) RefuseAgain(by *Letter) {
	l.Refusals = keepRefusals(l.Refusals, by.Refusals[len(by.Refusals)-1])
	l.Times++
	l.LastTime, l.Generation, l.Digest, l.Error, l.Stopped = by.LastTime, by.Generation, by.Digest, by.Error, by.Stopped
}

// keepRefusals returns the first refusals and the last ones with r.
func keepRefusals(all []rest.Refusal, r rest.Refusal) []rest.Refusal {
	if n := len(all); n >= maxRefusals {
		all = append(all[:1], all[n-maxRefusals+2:]...)
	}
	return append(all, r)
}

// Replace makes it what was refused, by, when it was replayed.
func (l *Letter) Replace(by *Letter) {
	l.Hash, l.Stage, l.RefusedBy, l.Entry, l.Key, l.Bytes, l.Record = by.Hash, by.Stage, by.RefusedBy, by.Entry, by.Key, by.Bytes, by.Record
	l.RefuseAgain(by)
}

// Edit replaces the record.
func (l *Letter) Edit(r *record.Record) {
	l.Record, l.Key = encode(*r), keyText(r.Key)
	l.Bytes = int64(len(l.Record))
	l.Edits++
	l.Edited = true
}

// Listed returns it as a page has it.
func (l *Letter) Listed() rest.DeadLetter {
	one := l.DeadLetter
	one.Error, one.Record, one.Refusals = cut(l.Error, maxError), nil, nil
	return one
}

// Selected reports whether a filter selects it.
func (l *Letter) Selected(f *rest.DeadLetterFilter) bool {
	return (f.Since.IsZero() || !l.Time.Before(f.Since)) && (f.Until.IsZero() || l.Time.Before(f.Until)) &&
		(f.Stage == "" || l.Stage == f.Stage) && strings.Contains(l.Key, f.Key) &&
		strings.Contains(lowerASCII(cut(l.Error, maxError)), lowerASCII(f.Error))
}

// Replay returns it as it is replayed.
func (l *Letter) Replay() (Replay, error) {
	r := Replay{ID: l.ID, Edits: l.Edits, Stage: l.Stage, Stopped: l.Stopped, SourceID: l.SourceID, Entry: l.Entry}
	var err error
	r.Record, err = decode(l.Record)
	return r, err
}
