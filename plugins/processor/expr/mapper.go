package expr

import (
	"context"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func newMapper() sdk.Processor { return &mapper{} }

type mapConfig struct {
	// Lines "reference = expression", for example: .Payload.After.total = after.price * after.count. An expression
	// continues in lines that begin with white space; lines that begin with # are comments.
	Mapping string `json:"mapping" validate:"required"`
}

type mapper struct {
	sdk.ProcessorBase
	environment *environment
	assignments []assignment
	values      []any // values for one record, by assignment
}

// assignment sets a field to the value of an expression.
type assignment struct {
	field   *fieldref.Ref
	program *program
}

func (*mapper) Parameters() sdk.Parameters { return sdk.Described(mapConfig{}, descriptions) }

func (p *mapper) Configure(ctx context.Context, settings map[string]string) error {
	var c mapConfig
	if err := sdk.Decode(settings, &c); err != nil {
		return err
	}
	p.environment, p.assignments = newEnvironment(ctx), nil
	for _, s := range statements(c.Mapping) {
		a, err := p.environment.compileAssignment(s)
		if err != nil {
			return sdk.SettingError{Setting: "mapping", Message: err.Error()}
		}
		p.assignments = append(p.assignments, a)
	}
	if len(p.assignments) == 0 {
		return sdk.SettingError{Setting: "mapping", Message: "it has no line with an expression"}
	}
	p.values = make([]any, len(p.assignments))
	return nil
}

// statements returns the statements of a mapping, each with its place.
func statements(mapping string) (all []source) {
	lines := strings.Split(mapping, "\n")
	for n, line := range lines {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || trimmed[0] == '#':
		case (line[0] == ' ' || line[0] == '\t') && len(all) > 0:
			last := &all[len(all)-1]
			last.column = n - last.line // for now: the number of lines after the first
		default:
			all = append(all, source{setting: "mapping", text: mapping, line: n})
		}
	}
	return all
}

// compileAssignment compiles one statement.
func (e *environment) compileAssignment(s source) (a assignment, err error) {
	lines := strings.Split(s.text, "\n")[s.line:]
	statement := strings.Join(lines[:s.column+1], "\n")
	reference, expression, ok := cutAssignment(statement)
	if !ok {
		s.column = 0
		return a, fmt.Errorf("%s:%d: want reference = expression, for example: .Payload.After.total = after.price * "+
			"after.count", s.setting, s.line+1)
	}
	if a.field, err = fieldref.Parse(strings.TrimSpace(reference)); err != nil {
		return a, fmt.Errorf("%s:%d: %w", s.setting, s.line+1, err)
	}
	if err := settable(a.field); err != nil {
		return a, fmt.Errorf("%s:%d: %w", s.setting, s.line+1, err)
	}
	s.column = len([]rune(reference)) + 1
	a.program, err = e.compile(s, expression)
	return a, err
}

// cutAssignment cuts a statement at the '=' after the reference.
func cutAssignment(s string) (reference, expression string, ok bool) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '=' && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// settable refuses references that can never be set.
func settable(f *fieldref.Ref) error {
	switch f.Root() {
	case fieldref.Key, fieldref.Before, fieldref.After, fieldref.Operation:
		return nil
	case fieldref.Metadata:
		if f.IsNested() {
			return nil
		}
	}
	return fmt.Errorf("cannot set %s as a whole: name one field", f)
}

// SchemaParts returns the parts that the expressions read or set.
func (p *mapper) SchemaParts() schema.Parts {
	parts := p.environment.parts()
	for _, a := range p.assignments {
		set := a.field.Parts()
		parts.Key, parts.Payload = parts.Key || set.Key, parts.Payload || set.Payload
	}
	return parts
}

func (p *mapper) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	p.environment.begin(ctx)
	for i := range b.Records(ctx) {
		if err := p.processOne(b, i); err != nil {
			b.Refuse(i, err)
		}
	}
	return ctx.Err()
}

// processOne evaluates all expressions before it sets any field.
func (p *mapper) processOne(b *sdk.ProcessBatch, i int) (err error) {
	r := b.Record(i)
	p.environment.show(r)
	for n, a := range p.assignments {
		v, err := a.program.run(p.environment)
		if err == nil {
			p.values[n], err = own(v, 0)
		}
		if err == nil {
			err = b.Take(i, record.ValueMemory(p.values[n]))
		}
		if err != nil {
			return err
		}
	}
	for n, a := range p.assignments {
		v := p.values[n]
		if a.field.Root() == fieldref.Metadata {
			v = metadataValue(v)
		}
		if err := a.field.Set(r, v); err != nil {
			return fmt.Errorf("mapping:%d: %w", a.program.source.line+1, err)
		}
	}
	return nil
}

// metadataValue returns v as a metadata value: text, or nil to remove the key.
func metadataValue(v any) any {
	if v == nil {
		return nil
	}
	s, _ := text(v)
	return s
}
