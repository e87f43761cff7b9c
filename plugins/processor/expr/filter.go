package expr

import (
	"context"

	lang "github.com/expr-lang/expr"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func newFilter() sdk.Processor { return &filter{} }

type filterConfig struct {
	// Condition for records to keep, for example: after.price > 100 && metadata.region == "eu"
	Expression string `json:"expression" validate:"required"`
}

type filter struct {
	sdk.ProcessorBase
	environment *environment
	program     *program
}

func (*filter) Parameters() sdk.Parameters { return sdk.Described(filterConfig{}, descriptions) }

func (p *filter) Configure(ctx context.Context, settings map[string]string) (err error) {
	var c filterConfig
	if err := sdk.Decode(settings, &c); err != nil {
		return err
	}
	p.environment = newEnvironment(ctx)
	p.program, err = p.environment.compile(source{setting: "expression", text: c.Expression}, c.Expression,
		lang.AsBool())
	if err != nil {
		return sdk.SettingError{Setting: "expression", Message: err.Error()}
	}
	return nil
}

func (p *filter) SchemaParts() schema.Parts { return p.environment.parts() }

func (p *filter) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	p.environment.begin(ctx)
	for i, r := range b.Records(ctx) {
		p.environment.show(r)
		keep, err := p.program.run(p.environment)
		if err != nil {
			b.Refuse(i, err)
		} else if keep != true {
			b.Filter(i)
		}
	}
	return ctx.Err()
}
