package flow

import (
	"context"
	"maps"
	"os"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// dedupe drops records whose key was seen within the window.
type dedupe struct {
	sdk.ProcessorBase
	key    []*fieldref.Ref
	count  int
	period time.Duration // 0: no limit

	seen    map[key]time.Time
	order   []sighting         // oldest first; an entry is superseded when its key is seen again later
	pending map[any][]sighting // by uncommitted batch
	passing map[key]struct{}   // keys of seen from records whose commit is not reported
	dir     string             // directory of the journal; empty once the journal is open, and without a directory
	journal *journal           // nil before the first records, and without a directory
}

// sighting is a key and the time it was first seen.
type sighting struct {
	key key
	at  time.Time
}

type dedupeSettings struct {
	// Comma list of references to the fields that identify a record.
	Key string `json:"key" default:".Key"`
	// Keys that are remembered. The oldest is forgotten first.
	Count int `json:"window.count" default:"100000" validate:"gt=0,lt=10000001"`
	// Time for which a key is remembered after its first record. 0: until count other keys were seen.
	Time time.Duration `json:"window.time" default:"0"`
}

// Parameters implements sdk.Processor.
func (p *dedupe) Parameters() sdk.Parameters { return sdk.Described(dedupeSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *dedupe) Configure(_ context.Context, settings map[string]string) error {
	var s dedupeSettings
	err := sdk.Decode(settings, &s)
	if err != nil {
		return err
	}
	if p.key, err = fieldref.ParseList(s.Key); err != nil {
		return sdk.SettingError{Setting: "key", Message: err.Error()}
	}
	if s.Time < 0 {
		return sdk.SettingError{Setting: "window.time", Message: "must not be negative"}
	}
	p.count, p.period = s.Count, s.Time
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *dedupe) SchemaParts() schema.Parts { return fieldref.PartsOf(p.key...) }

// NeverFound implements sdk.FieldReader.
func (p *dedupe) NeverFound() []string { return fieldref.NeverFound(p.key...) }

// Open implements sdk.Processor.
func (p *dedupe) Open(ctx context.Context) error {
	p.seen, p.pending, p.passing = map[key]time.Time{}, map[any][]sighting{}, map[key]struct{}{}
	if p.dir = sdk.EnvFrom(ctx).StateDir; p.dir == "" {
		return nil
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return cannotKeep(err)
	}
	return nil
}

// load reads the journal. It is called with the first records, because until then the previous run may not have ended
// and may still write the journal.
func (p *dedupe) load(ctx context.Context) error {
	if p.dir == "" {
		return nil
	}
	var known []sighting
	var err error
	if p.journal, known, err = openJournal(p.dir); err != nil {
		return err
	}
	p.dir = ""
	for _, s := range known {
		p.remember(s)
	}
	p.forget(sdk.Now(ctx))
	return nil
}

// CanSucceed implements sdk.Successor. Keys made of other fields are different keys; the old ones expire.
func (p *dedupe) CanSucceed(sdk.Processor) bool { return true }

// Succeed implements sdk.Successor.
func (p *dedupe) Succeed(former sdk.Processor) {
	f := former.(*dedupe)
	p.seen, p.order, p.pending, p.passing, p.dir, p.journal = f.seen, f.order, f.pending, f.passing, f.dir, f.journal
	for len(p.seen) > p.count {
		p.forgetOldest()
	}
}

// Process implements sdk.Processor.
func (p *dedupe) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	if err := p.load(ctx); err != nil {
		return err
	}
	now := sdk.Now(ctx)
	p.forget(now)
	for i, r := range b.Records(ctx) {
		k, has, err := keyOf(r, p.key)
		switch {
		case err != nil:
			b.Refuse(i, err)
		case !has:
		case p.saw(k):
			b.Filter(i)
		default:
			s := sighting{k, now}
			p.remember(s)
			switch token := b.Token(); {
			case p.journal == nil:
			case token != nil:
				p.pending[token] = append(p.pending[token], s)
			default:
				p.passing[k] = struct{}{}
			}
		}
	}
	return ctx.Err()
}

func (p *dedupe) saw(k key) bool {
	_, ok := p.seen[k]
	return ok
}

func (p *dedupe) remember(s sighting) {
	p.seen[s.key] = s.at
	p.order = append(p.order, s)
	for len(p.seen) > p.count {
		p.forgetOldest()
	}
}

// forget forgets the keys that are older than the window.
func (p *dedupe) forget(now time.Time) {
	for p.period > 0 && len(p.order) > 0 && now.Sub(p.order[0].at) >= p.period {
		p.forgetOldest()
	}
}

func (p *dedupe) forgetOldest() {
	oldest := p.order[0]
	p.order = p.order[1:]
	if at, ok := p.seen[oldest.key]; ok && at.Equal(oldest.at) {
		delete(p.seen, oldest.key)
		delete(p.passing, oldest.key)
	}
}

// Committed implements sdk.CommitObserver. It makes the keys learned from the batches durable. A key in the journal
// marks every record with that key as delivered, even the record that introduced the key when it is read again.
func (p *dedupe) Committed(_ context.Context, tokens []any) error {
	var learned []sighting
	for _, t := range tokens {
		learned = append(learned, p.pending[t]...)
		delete(p.pending, t)
	}
	if len(learned) == 0 {
		return nil
	}
	if err := p.journal.append(learned); err != nil {
		return err
	}
	if p.journal.entries > 2*p.count+minCompact {
		return p.journal.rewrite(p.committed())
	}
	return nil
}

// committed returns the remembered keys that may be durable.
func (p *dedupe) committed() []sighting {
	open := maps.Clone(p.passing)
	for _, batch := range p.pending {
		for _, s := range batch {
			open[s.key] = struct{}{}
		}
	}
	var all []sighting
	for _, s := range p.order {
		at, ok := p.seen[s.key]
		if _, waits := open[s.key]; ok && at.Equal(s.at) && !waits {
			all = append(all, s)
		}
	}
	return all
}

// Teardown implements sdk.Processor.
func (p *dedupe) Teardown(context.Context) error {
	if p.journal == nil {
		return nil
	}
	return p.journal.close()
}
