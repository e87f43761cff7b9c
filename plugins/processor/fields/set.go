package fields

import (
	"context"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// set sets a field.
type set struct {
	references
	template *template.Template
	constant any  // the value of a template without actions
	shared   bool // records may share the constant
	read     func(text string) (any, error)
	budget   int // maximum bytes of memory of a JSON value
	scratch  []byte
}

type setSettings struct {
	// Reference to the field.
	Field string `json:"field" validate:"required,exclusion=.Position"`
	// Template over the record that makes the value. In a pipeline file, variables of the template are written $$name.
	Value string `json:"value" validate:"required"`
	// Type of the value. With json the text is read as JSON.
	Type string `json:"type" default:"string" validate:"inclusion=string|int|float|bool|time|json"`
}

// Parameters implements sdk.Processor.
func (p *set) Parameters() sdk.Parameters { return sdk.Described(setSettings{}, descriptions) }

// NeverFound implements sdk.FieldReader. The field may be a new one, and the template fails without its fields.
func (p *set) NeverFound() []string { return nil }

// Configure implements sdk.Processor.
func (p *set) Configure(_ context.Context, settings map[string]string) error {
	var s setSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	ref, err := fieldref.Parse(s.Field)
	if err != nil {
		return sdk.SettingError{Setting: "field", Message: err.Error()}
	}
	p.refs = []*fieldref.Ref{ref}
	if err := checkSettable(ref, s.Type); err != nil {
		return err
	}
	if p.template, err = template.Parse(s.Value, template.Exact); err != nil {
		return sdk.SettingError{Setting: "value", Message: err.Error()}
	}
	p.read = readers[s.Type]
	if s.Type == "json" {
		p.budget = sdk.DefaultBudget
		p.read = func(text string) (any, error) { return jsonvalue.ParseWithin([]byte(text), p.budget) }
	}
	return p.prepare(s.Type)
}

// prepare makes the value of a constant template, and checks that the field accepts it.
func (p *set) prepare(typ string) error {
	text, ok := p.template.Constant()
	if !ok {
		return nil
	}
	v, err := p.read(text)
	if err == nil {
		err = p.refs[0].Set(&record.Record{}, v)
	}
	if err != nil {
		return sdk.SettingError{Setting: "value", Message: err.Error()}
	}
	p.constant, p.shared = v, typ != "json" && p.refs[0].IsNested()
	return nil
}

func checkSettable(ref *fieldref.Ref, typ string) error {
	wrong := func(message string) error {
		return sdk.SettingError{Setting: "field", Message: fmt.Sprintf("%s %s", ref, message)}
	}
	switch ref.Root() {
	case fieldref.Whole, fieldref.Position, fieldref.Payload:
		return wrong("cannot be set")
	case fieldref.Metadata:
		if !ref.IsNested() {
			return wrong("cannot be set as a whole; name a key, such as .Metadata.key")
		}
	case fieldref.Key, fieldref.Before, fieldref.After:
		if ref.IsNested() {
			return nil
		}
		if typ == "json" {
			return nil
		}
	}
	if typ != "string" {
		return wrong(fmt.Sprintf("cannot hold a value of type %s", typ))
	}
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *set) SchemaParts() schema.Parts {
	parts, reads := p.references.SchemaParts(), p.template.Parts()
	return schema.Parts{Key: parts.Key || reads.Key, Payload: parts.Payload || reads.Payload}
}

// Process implements sdk.Processor.
func (p *set) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	var timeLimit template.TimeLimit
	timeLimit.BeginWithin(ctx, sdk.EnvFrom(ctx).TimeLimit)
	p.budget = sdk.Budget(ctx)
	ref := p.refs[0]
	if _, ok := p.template.Constant(); ok {
		return b.EachUntil(ctx, func(r *record.Record) error {
			v := p.constant
			if !p.shared {
				if err := b.TakeHere(record.ValueMemory(v)); err != nil {
					return err
				}
				v = record.CloneValue(v)
			}
			return ref.Set(r, v)
		})
	}
	return b.EachUntil(ctx, func(r *record.Record) error {
		var err error
		if p.scratch, err = p.template.Append(&timeLimit, p.scratch[:0], r); err != nil {
			return fmt.Errorf("cannot make the value of %s: %w", ref, err)
		}
		v, err := p.read(string(p.scratch))
		if err != nil {
			return fmt.Errorf("cannot make the value of %s: %w", ref, err)
		}
		if err := b.TakeHere(len(p.scratch) + record.ValueMemory(v)); err != nil {
			return err
		}
		return ref.Set(r, v)
	})
}
