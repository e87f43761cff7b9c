package deadletter

import (
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// maxSharedExact is the maximum size of a record that a DeadLetter also holds in binary, because messages of a cluster
// are bounded.
const maxSharedExact = 128 << 10

// Whole returns the dead letter for display, with the record in JSON only.
func (l *DeadLetter) Whole() (spec.DeadLetter, error) {
	one := l.DeadLetter
	err := show(&one, l.Record)
	return one, err
}

// DeadLetter is a dead letter that is kept outside of a Store. It is complete, with its record and refusals.
type DeadLetter struct {
	spec.DeadLetter
	Hash  []byte `json:"hash"` // identity of the record and the place of the refusal
	Entry Entry  `json:"entry"`
	Edits int64  `json:"edits,omitempty"`
}

// maxSharedText is the maximum number of bytes of an error in a refusal of a DeadLetter.
const maxSharedText = 4 << 10

// New returns a dead letter without an id.
func New(d *spec.Declaration, l *engine.DeadLetter, at time.Time) *DeadLetter {
	one := newQueued(d, l, at)
	if len(one.body) > maxSharedExact {
		one.body = withoutAnyExact(one.body)
	}
	one.refusal.Error = cut(one.refusal.Error, maxSharedText)
	return &DeadLetter{
		DeadLetter: spec.DeadLetter{
			PipelineID: one.pipeline, Time: at, LastTime: at, Times: 1, SourceID: one.source, Stage: one.stage,
			RefusedBy:  one.refusedBy,
			Generation: d.Generation, Digest: one.digest, Key: one.key, Error: one.refusal.Error, Stopped: one.stopped,
			Bytes:    int64(len(one.body)),
			Refusals: []spec.Refusal{one.refusal}, Record: one.body,
		},
		Hash: one.hash, Entry: one.entry,
	}
}

// RefuseAgain adds the refusal in by.
func (l *DeadLetter) RefuseAgain(by *DeadLetter) {
	l.Refusals = keepRefusals(l.Refusals, by.Refusals[len(by.Refusals)-1])
	l.Times++
	l.LastTime, l.Generation, l.Digest, l.Error, l.Stopped = by.LastTime, by.Generation, by.Digest, by.Error, by.Stopped
}

// keepRefusals appends r to all, and removes refusals from the middle if there are too many.
func keepRefusals(all []spec.Refusal, r spec.Refusal) []spec.Refusal {
	if n := len(all); n >= maxRefusals {
		all = append(all[:1], all[n-maxRefusals+2:]...)
	}
	return append(all, r)
}

// Replace replaces the dead letter by by, the record that was refused when the dead letter was replayed.
func (l *DeadLetter) Replace(by *DeadLetter) {
	l.Hash, l.Stage, l.RefusedBy, l.Entry, l.Key, l.Bytes, l.Record = by.Hash, by.Stage, by.RefusedBy, by.Entry, by.Key,
		by.Bytes, by.Record
	l.RefuseAgain(by)
}

// Edit replaces the record.
func (l *DeadLetter) Edit(r *record.Record) {
	_, original, err := split(l.Record)
	if err != nil { // the edited record is all that counts
		original = nil
	}
	l.Record, l.Key = appendOriginal(encode(*r), original), keyText(r.Key)
	l.Bytes = int64(len(l.Record))
	l.Edits++
	l.Edited = true
}

// Listed returns the dead letter as an entry of a page.
func (l *DeadLetter) Listed() spec.DeadLetter {
	one := l.DeadLetter
	one.Error, one.Record, one.Refusals = cut(l.Error, maxError), nil, nil
	return one
}

// Selected reports whether the dead letter matches a filter.
func (l *DeadLetter) Selected(f *spec.DeadLetterFilter) bool {
	return (f.Since.IsZero() || !l.Time.Before(f.Since)) && (f.Until.IsZero() || l.Time.Before(f.Until)) &&
		(f.Stage == "" || l.Stage == f.Stage) && strings.Contains(l.Key, f.Key) &&
		strings.Contains(lowerASCII(cut(l.Error, maxError)), lowerASCII(f.Error))
}

// Replay returns the dead letter for a replay.
func (l *DeadLetter) Replay() (Replay, error) {
	r := Replay{ID: l.ID, Edits: l.Edits, Stage: l.Stage, Stopped: l.Stopped, SourceID: l.SourceID, Entry: l.Entry}
	return r, r.decode(l.Record)
}
