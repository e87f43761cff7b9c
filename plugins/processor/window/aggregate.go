package window

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// aggregate collects records by window and key.
type aggregate struct {
	sdk.ProcessorBase
	settings settings
	key      []*fieldref.Ref
	time     *fieldref.Ref // nil: use the time in the metadata
	columns  []column

	windows   map[int64]*span // open windows by their beginning in nanoseconds
	holding   int
	watermark int64     // windows up to this time have ended
	next      int64     // earliest end of a window that the watermark ends; math.MaxInt64 for none
	last      time.Time // with time: when the last record arrived
	warned    time.Time // when it last warned that windows end early

	// Of the current record; they are kept to save allocations.
	starts []int64  // see begins
	id     []byte   // see idOf
	values []any    // of the columns
	groups []*group // one for each window
}

// span is one window.
type span struct {
	begin, end int64
	due        time.Time // without time: when it ends even if no later record arrives
	again      bool      // without time: a late record reopened it after its end
	groups     map[string]*group
}

// group holds the aggregated values for a key in a window.
type group struct {
	key    []any
	values []value
	last   record.Record // position of the last record, and the metadata that the records share
	held   []sdk.Held    // records for which this is the last window
}

// Parameters implements sdk.Processor.
func (a *aggregate) Parameters() sdk.Parameters { return sdk.Described(settings{}, descriptions) }

// Configure implements sdk.Processor.
func (a *aggregate) Configure(_ context.Context, values map[string]string) (err error) {
	s := &a.settings
	if err := sdk.Decode(values, s); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if a.columns, err = s.columns(); err != nil {
		return err
	}
	if s.Key != "" {
		if a.key, err = fieldref.ParseList(s.Key); err != nil {
			return sdk.SettingError{Setting: "key", Message: err.Error()}
		}
	}
	for _, ref := range a.key {
		if !ref.IsNested() {
			return sdk.SettingError{Setting: "key",
				Message: fmt.Sprintf("%s has no name for the results; name a field inside it", ref)}
		}
	}
	if s.Time != "" {
		if a.time, err = fieldref.Parse(s.Time); err != nil {
			return sdk.SettingError{Setting: "time", Message: err.Error()}
		}
	}
	a.windows, a.next = map[int64]*span{}, math.MaxInt64
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (a *aggregate) SchemaParts() schema.Parts { return fieldref.PartsOf(append(a.read(), a.time)...) }

// NeverFound implements sdk.FieldReader.
func (a *aggregate) NeverFound() []string { return fieldref.NeverFound(a.read()...) }

// read returns the fields that are aggregated, or grouped by.
func (a *aggregate) read() []*fieldref.Ref {
	refs := slices.Clone(a.key)
	for _, c := range a.columns {
		if c.ref != nil {
			refs = append(refs, c.ref)
		}
	}
	return refs
}

// CanSucceed implements sdk.Successor. An instance can continue the open windows of another one if it computes the same
// values for the same windows.
func (a *aggregate) CanSucceed(former sdk.Processor) bool {
	f := former.(*aggregate)
	s, t := a.settings, f.settings
	for _, other := range []*settings{&s, &t} {
		other.Records, other.Late, other.Lateness, other.Ahead = 0, "", 0, 0
	}
	return len(f.windows) == 0 || reflect.DeepEqual(s, t)
}

// Succeed implements sdk.Successor.
func (a *aggregate) Succeed(former sdk.Processor) {
	f := former.(*aggregate)
	if len(f.windows) > 0 || a.settings.Time == f.settings.Time {
		a.windows, a.holding, a.watermark, a.next, a.last = f.windows, f.holding, f.watermark, f.next, f.last
	}
}

// Deadline implements sdk.TimedProcessor. It returns when the first window is due. With time, it returns when no record
// has arrived for the length of a window plus the lateness.
func (a *aggregate) Deadline() (first time.Time) {
	if len(a.windows) == 0 {
		return time.Time{}
	}
	if a.time != nil {
		return a.last.Add(a.settings.Size + a.settings.Lateness)
	}
	for _, w := range a.windows {
		if first.IsZero() || w.due.Before(first) {
			first = w.due
		}
	}
	return first
}

// Process implements sdk.Processor.
func (a *aggregate) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	now := sdk.Now(ctx)
	if a.time == nil {
		a.endEach(b, func(w *span) bool { return !w.due.After(now) })
	} else if b.Len() == 0 && !now.Before(a.Deadline()) {
		a.endAll(b)
	}
	for i := range b.Records(ctx) {
		a.last = now
		err := a.gather(ctx, b, i, now)
		if err != nil {
			b.Refuse(i, err)
		}
	}
	return ctx.Err()
}

// Release implements sdk.Releaser. It ends all windows early.
func (a *aggregate) Release(ctx context.Context, b *sdk.ProcessBatch) error {
	a.endEarly(ctx, b, "the source cannot read more before records of them are acknowledged")
	return nil
}

// gather adds record i to its windows and holds it, or returns why it cannot.
func (a *aggregate) gather(ctx context.Context, b *sdk.ProcessBatch, i int, now time.Time) error {
	r := b.Record(i)
	at, grace, err := a.timeOf(r, now)
	if err != nil {
		return err
	}
	if a.time != nil && a.settings.Ahead > 0 && at.After(now.Add(a.settings.Ahead)) {
		return fmt.Errorf("its time, %s, is more than %s ahead of the clock of this machine",
			at.UTC().Format(time.RFC3339Nano), a.settings.Ahead)
	}
	begins := a.begins(at.UnixNano())
	if len(begins) == 0 {
		if a.settings.Late == "drop" {
			b.Filter(i)
			return nil
		}
		return fmt.Errorf("it is late: its time is %s, and windows up to %s have ended",
			at.UTC().Format(time.RFC3339Nano), time.Unix(0, a.watermark).UTC().Format(time.RFC3339Nano))
	}
	id, err := a.idOf(r)
	if err != nil {
		return err
	}
	values, err := a.valuesOf(r)
	if err != nil {
		return err
	}
	groups := a.groups[:0]
	for _, begin := range begins {
		g, err := a.groupOf(a.window(begin, now, grace), id, r)
		if err == nil {
			err = a.fits(g, values)
		}
		if err != nil {
			return err
		}
		groups = append(groups, g)
	}
	a.groups = groups
	for _, g := range groups {
		a.take(g, r, values)
	}
	g := groups[len(groups)-1]
	g.held = append(g.held, b.Hold(i))
	a.holding++
	if a.time == nil && at.After(now) {
		at = now // a fast clock elsewhere must not make other records late
	}
	a.advance(b, at.Add(-grace))
	if a.holding >= a.settings.Records {
		a.endEarly(ctx, b, fmt.Sprintf("they hold %d records, which is window.records", a.holding))
	}
	return nil
}

// warnInterval is the shortest time between two warnings that windows end early.
const warnInterval = time.Minute

// endEarly ends all windows, with a warning: later records will be in further records of the same windows.
func (a *aggregate) endEarly(ctx context.Context, b *sdk.ProcessBatch, why string) {
	if now := sdk.Now(ctx); len(a.windows) > 0 && now.Sub(a.warned) >= warnInterval {
		a.warned = now
		sdk.Logger(ctx).Warn("windows end early and become several records: "+why, "windows", len(a.windows))
	}
	a.endAll(b)
}

// advance ends the windows that can get no more records, given that no record before at is expected.
func (a *aggregate) advance(b *sdk.ProcessBatch, at time.Time) {
	if w := at.UnixNano(); w > a.watermark {
		a.watermark = w
		if w >= a.next {
			a.endEach(b, func(s *span) bool { return s.end <= w && !s.again })
		}
	}
}

// longestGrace bounds how much later than others a record may arrive if its time is from the metadata.
const longestGrace = time.Second

// timeOf returns the time of a record, and how much later than others such a record may arrive. Without time it is the
// time when the record was created in its source, or otherwise when it was read. So records that arrive late, for
// example after an outage, count in the right window.
func (a *aggregate) timeOf(r *record.Record, now time.Time) (at time.Time, grace time.Duration, err error) {
	if a.time != nil {
		at, err = a.timeIn(r)
		return at, a.settings.Lateness, err
	}
	for _, key := range []string{record.KeyCreatedAt, record.KeyReadAt} {
		if n, err := strconv.ParseInt(r.Metadata.Get(key), 10, 64); err == nil && n > 0 {
			return time.Unix(0, n), min(longestGrace, a.settings.Size/10), nil
		}
	}
	return now, 0, nil
}

// timeIn returns the value of the field time of a record.
func (a *aggregate) timeIn(r *record.Record) (at time.Time, err error) {
	v, _, err := a.time.Get(r)
	if err != nil {
		return at, err
	}
	switch v := v.(type) {
	case time.Time:
		return v, nil
	case int64:
		return time.Unix(0, v), nil
	case float64:
		return time.Unix(0, int64(v)), nil
	case json.Number:
		if f, err := v.Float64(); err == nil && math.Abs(f) < math.MaxInt64 {
			return time.Unix(0, int64(f)), nil
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return time.Unix(0, n), nil
		}
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t, nil
		}
	}
	return at, fmt.Errorf("%s is no time: want a time, RFC 3339 or Unix nanoseconds", a.time)
}

// begins returns the beginnings of the open windows around t, earliest first.
func (a *aggregate) begins(t int64) []int64 {
	size, slide := int64(a.settings.Size), int64(a.settings.Slide)
	last := t - ((t%slide)+slide)%slide
	begins := a.starts[:0]
	for begin := last; begin > t-size; begin -= slide {
		if a.time == nil || begin+size > a.watermark {
			begins = append(begins, begin)
		}
	}
	slices.Reverse(begins)
	a.starts = begins
	return begins
}

// idOf returns a text that is unique to the key of a record. It is valid until the next call.
func (a *aggregate) idOf(r *record.Record) (id []byte, err error) {
	id = a.id[:0]
	for _, ref := range a.key {
		v, _, err := ref.Get(r)
		if err != nil {
			return nil, err
		}
		if id, err = record.AppendValue(append(id, ','), v); err != nil {
			return nil, fmt.Errorf("cannot group by %s: %w", ref, err)
		}
	}
	a.id = id
	return id, nil
}

// valuesOf returns the values of the columns. They are valid until the next call.
func (a *aggregate) valuesOf(r *record.Record) ([]any, error) {
	if a.values == nil {
		a.values = make([]any, len(a.columns))
	}
	values := a.values
	for i := range a.columns {
		c := &a.columns[i]
		if values[i] = nil; c.ref == nil {
			continue
		}
		v, _, err := c.ref.Get(r)
		if err != nil {
			return nil, err
		}
		if v != nil {
			if err := c.check(v); err != nil {
				return nil, fmt.Errorf("cannot compute %s of %s: %w", c.function, c.ref, err)
			}
		}
		values[i] = v
	}
	return values, nil
}

// window returns the window that begins at begin. A window that is opened after its end, or long before its beginning,
// stays open for the usual length, so that its other records can arrive.
func (a *aggregate) window(begin int64, now time.Time, grace time.Duration) *span {
	w := a.windows[begin]
	if w == nil {
		w = &span{begin: begin, end: begin + int64(a.settings.Size), groups: map[string]*group{}}
		w.again = w.end <= a.watermark
		if w.due = time.Unix(0, w.end).Add(grace); !w.due.After(now) || w.due.After(now.Add(a.settings.Size+grace)) {
			w.due = now.Add(a.settings.Size)
		}
		a.windows[begin] = w
		a.expect(w)
	}
	return w
}

// expect lets the watermark end the window, unless it was reopened.
func (a *aggregate) expect(w *span) {
	if !w.again {
		a.next = min(a.next, w.end)
	}
}

// groupOf returns the group of a record in a window. The id is from idOf.
func (a *aggregate) groupOf(w *span, id []byte, r *record.Record) (*group, error) {
	if g := w.groups[string(id)]; g != nil {
		return g, nil
	}
	g := &group{values: make([]value, len(a.columns))}
	for _, ref := range a.key {
		v, _, err := ref.Get(r)
		if err != nil {
			return nil, err
		}
		g.key = append(g.key, record.CloneValue(v))
	}
	w.groups[string(id)] = g
	return g, nil
}

// fits returns an error if the values cannot be added to the group.
func (a *aggregate) fits(g *group, values []any) error {
	for i := range a.columns {
		c := &a.columns[i]
		if v := values[i]; v != nil && g.values[i].v != nil && (c.function == "min" || c.function == "max") {
			if _, err := compare(v, g.values[i].v); err != nil {
				return fmt.Errorf("cannot compute %s of %s: %w", c.function, c.ref, err)
			}
		}
	}
	return nil
}

func (a *aggregate) take(g *group, r *record.Record, values []any) {
	if g.last.Position == nil {
		for _, k := range []string{record.KeyCollection, record.KeyClusterEpoch} {
			if v := r.Metadata.Get(k); v != "" {
				g.last.Metadata.Set(k, v)
			}
		}
	}
	// The id of the connector and the position are from the same record: together they identify the result for
	// destinations.
	if v := r.Metadata.Get(record.KeySourceConnectorID); v != g.last.Metadata.Get(record.KeySourceConnectorID) {
		g.last.Metadata.Set(record.KeySourceConnectorID, v)
	}
	g.last.Position = r.Position
	for i := range a.columns {
		if c := &a.columns[i]; c.ref == nil || values[i] != nil {
			_ = c.take(&g.values[i], values[i]) // fits checked it
		}
	}
}

// endEach ends the windows for which over returns true, earliest first.
func (a *aggregate) endEach(b *sdk.ProcessBatch, over func(*span) bool) {
	for _, begin := range slices.Sorted(maps.Keys(a.windows)) {
		if w := a.windows[begin]; over(w) {
			a.end(b, w)
		}
	}
	a.next = math.MaxInt64
	for _, w := range a.windows {
		a.expect(w)
	}
}

func (a *aggregate) endAll(b *sdk.ProcessBatch) { a.endEach(b, func(*span) bool { return true }) }

// end emits the records of a window, one for each group.
func (a *aggregate) end(b *sdk.ProcessBatch, w *span) {
	delete(a.windows, w.begin)
	for _, g := range slices.SortedFunc(maps.Values(w.groups), func(x, y *group) int {
		return cmp.Compare(fmt.Sprint(x.key), fmt.Sprint(y.key))
	}) {
		if !slices.ContainsFunc(g.values, func(v value) bool { return v.count > 0 }) && len(g.held) == 0 {
			continue
		}
		a.holding -= len(g.held)
		b.Emit(sdk.Emission{Records: []record.Record{a.result(w, g)}, Settles: g.held})
	}
}

func (a *aggregate) result(w *span, g *group) record.Record {
	r := g.last
	r.Operation = record.OperationCreate
	r.Metadata.Set(record.KeyWindowStart, time.Unix(0, w.begin).UTC().Format(time.RFC3339Nano))
	r.Metadata.Set("window.end", time.Unix(0, w.end).UTC().Format(time.RFC3339Nano))
	after := make(map[string]any, len(a.key)+len(a.columns))
	if len(a.key) > 0 {
		key := make(map[string]any, len(a.key))
		for i, ref := range a.key {
			key[ref.Name()], after[ref.Name()] = g.key[i], record.CloneValue(g.key[i])
		}
		r.Key = record.Structured(key)
	}
	for i, c := range a.columns {
		after[c.name] = c.result(&g.values[i])
	}
	r.After = record.Structured(after)
	return r
}
