package flow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// filter drops every record.
type filter struct{ sdk.ProcessorBase }

// Parameters implements sdk.Processor.
func (filter) Parameters() sdk.Parameters { return sdk.Parameters{} }

// Configure implements sdk.Processor.
func (filter) Configure(context.Context, map[string]string) error { return nil }

// SchemaParts implements sdk.SchemaUser.
func (filter) SchemaParts() schema.Parts { return schema.Parts{} }

// Process implements sdk.Processor.
func (filter) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Records(ctx) {
		b.Filter(i)
	}
	return ctx.Err()
}

// refuse refuses every record.
type refuse struct {
	sdk.ProcessorBase
	text     string
	template *template.Template // nil: use the text
}

type refuseSettings struct {
	// Text of the error, a template over the record.
	Message string `json:"message" default:"error processor triggered"`
}

// Parameters implements sdk.Processor.
func (p *refuse) Parameters() sdk.Parameters { return sdk.Described(refuseSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *refuse) Configure(_ context.Context, settings map[string]string) error {
	var s refuseSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	p.text = s.Message
	if !strings.Contains(s.Message, "{{") {
		return nil
	}
	var err error
	if p.template, err = template.Parse(s.Message, template.Lenient); err != nil {
		return sdk.SettingError{Setting: "message", Message: err.Error()}
	}
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *refuse) SchemaParts() schema.Parts {
	if p.template == nil {
		return schema.Parts{}
	}
	return p.template.Parts()
}

// Process implements sdk.Processor. If the template fails, its error takes the place of the message.
func (p *refuse) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	var timeLimit template.TimeLimit
	timeLimit.BeginWithin(ctx, sdk.EnvFrom(ctx).TimeLimit)
	return b.EachUntil(ctx, func(r *record.Record) error {
		if p.template == nil {
			return errors.New(p.text)
		}
		text, err := p.template.Append(&timeLimit, nil, r)
		if err != nil {
			return fmt.Errorf("cannot make the message of the error: %w", err)
		}
		return errors.New(string(text))
	})
}

// sample passes a fraction of the records.
type sample struct {
	sdk.ProcessorBase
	rate  uint64  // one record in rate; 0: by ratio
	ratio float64 // fraction of the records to pass
	key   []*fieldref.Ref
	seen  uint64
}

type sampleSettings struct {
	// One record of so many is kept. Either rate or ratio is given.
	Rate int `json:"rate" validate:"gt=-1" default:"0"`
	// Share of the records to keep, between 0 and 1.
	Ratio float64 `json:"ratio" validate:"gt=-0.0000001,lt=1.0000001" default:"0"`
	// Comma list of references to fields. Records with equal values in these are all kept, or all dropped.
	Key string `json:"key"`
}

// Parameters implements sdk.Processor.
func (p *sample) Parameters() sdk.Parameters { return sdk.Described(sampleSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *sample) Configure(_ context.Context, settings map[string]string) error {
	var s sampleSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	if (s.Rate == 0) == (s.Ratio == 0) {
		return sdk.SettingError{Setting: "rate", Message: "either rate or ratio must be given, and not both"}
	}
	p.rate, p.ratio = uint64(s.Rate), s.Ratio
	if s.Key != "" {
		var err error
		if p.key, err = fieldref.ParseList(s.Key); err != nil {
			return sdk.SettingError{Setting: "key", Message: err.Error()}
		}
		if p.rate > 0 {
			p.ratio = 1 / float64(p.rate)
		}
	}
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *sample) SchemaParts() schema.Parts { return fieldref.PartsOf(p.key...) }

// NeverFound implements sdk.FieldReader.
func (p *sample) NeverFound() []string { return fieldref.NeverFound(p.key...) }

// Process implements sdk.Processor.
func (p *sample) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	for i, r := range b.Records(ctx) {
		goesOn, err := p.chooses(r)
		switch {
		case err != nil:
			b.Refuse(i, err)
		case !goesOn:
			b.Filter(i)
		}
	}
	return ctx.Err()
}

func (p *sample) chooses(r *record.Record) (bool, error) {
	if len(p.key) > 0 {
		k, _, err := keyOf(r, p.key)
		// The first bytes of a hash are a uniformly distributed number.
		return float64(k.number())/(1<<64) < p.ratio, err
	}
	if p.rate > 0 {
		p.seen++
		return p.seen%p.rate == 1 || p.rate == 1, nil
	}
	return rand.Float64() < p.ratio, nil
}
