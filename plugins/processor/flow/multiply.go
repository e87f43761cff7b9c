package flow

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Metadata keys for the numbers of copies and items.
const (
	keyCloneIndex = "clone.index"
	keySplitIndex = "split.index"
)

// clone makes copies of a record.
type clone struct {
	sdk.ProcessorBase
	count int
}

type cloneSettings struct {
	// Number of copies, in addition to the record itself.
	Count int `json:"count" validate:"required,gt=0,lt=10001"`
}

// Parameters implements sdk.Processor.
func (p *clone) Parameters() sdk.Parameters { return sdk.Described(cloneSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *clone) Configure(_ context.Context, settings map[string]string) error {
	var s cloneSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	p.count = s.Count
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *clone) SchemaParts() schema.Parts { return schema.Parts{} }

// Process implements sdk.Processor.
func (p *clone) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Records(ctx) {
		if err := b.Take(i, (1+p.count)*(b.Record(i).Memory()-sdk.PieceBytes)); err != nil {
			b.Refuse(i, err)
			continue
		}
		pieces := make([]record.Record, 1+p.count)
		for n := range pieces {
			pieces[n] = b.Record(i).Clone()
			pieces[n].Metadata.Set(keyCloneIndex, strconv.Itoa(n))
		}
		b.Replace(i, pieces)
	}
	return ctx.Err()
}

// split makes one record from each item of a list.
type split struct {
	sdk.ProcessorBase
	ref *fieldref.Ref
}

type splitSettings struct {
	// Reference to the list, in the key or the payload.
	Field string `json:"field" validate:"required,regex=^\\.([Pp]ayload|[Kk]ey).*"`
}

// Parameters implements sdk.Processor.
func (p *split) Parameters() sdk.Parameters { return sdk.Described(splitSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *split) Configure(_ context.Context, settings map[string]string) error {
	var s splitSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	var err error
	if p.ref, err = fieldref.Parse(s.Field); err != nil {
		return sdk.SettingError{Setting: "field", Message: err.Error()}
	}
	if !p.ref.IsNested() {
		return sdk.SettingError{Setting: "field", Message: fmt.Sprintf("%s cannot hold a list; name a field inside it",
			p.ref)}
	}
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *split) SchemaParts() schema.Parts { return p.ref.Parts() }

// Process implements sdk.Processor.
func (p *split) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Records(ctx) {
		pieces, err := p.pieces(b, i)
		if err != nil {
			b.Refuse(i, err)
			continue
		}
		b.Replace(i, pieces)
	}
	return ctx.Err()
}

func (p *split) pieces(b *sdk.ProcessBatch, i int) (pieces []record.Record, err error) {
	r := b.Record(i)
	v, _, err := p.ref.Get(r)
	if err != nil {
		return nil, err
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("field %q is not a list but %s", p.ref, fieldref.Kind(v))
	}
	// Do not copy the list itself into every piece.
	if err := p.ref.Set(r, nil); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.ref.Set(r, v)) }()
	if err := b.Take(i, record.ValueMemory(v)+len(items)*(r.Memory()-sdk.PieceBytes)); err != nil {
		return nil, err
	}
	pieces = make([]record.Record, len(items))
	for n, item := range items {
		pieces[n] = r.Clone()
		pieces[n].Metadata.Set(keySplitIndex, strconv.Itoa(n))
		if err := p.ref.Set(&pieces[n], record.CloneValue(item)); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}
