package enrich

import (
	"context"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/settingfile"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// file adds fields from a table in a file.
type file struct {
	sdk.ProcessorBase
	settings fileSettings
	key      *fieldref.Ref
	target   *fieldref.Ref

	table *settingfile.File[table]
}

type fileSettings struct {
	// The file.
	Path string `json:"path" validate:"required"`
	// csv or json; auto goes by the end of the name.
	Format string `json:"format" default:"auto" validate:"inclusion=auto|csv|json"`
	// Reference to the field whose value is looked up.
	Key string `json:"key" validate:"required"`
	// Column of the table in which it is searched. Empty: the first one of a CSV table.
	Column string `json:"column"`
	// Comma list of the columns that are added. Empty: all but that of the key.
	Columns []string `json:"columns"`
	// Reference to the object that the columns are added to.
	Target string `json:"target" default:".Payload.After"`
	// Action for a record that is not in the table.
	Missing string `json:"missing" default:"pass" validate:"inclusion=pass|refuse|filter"`
}

// Parameters implements sdk.Processor.
func (p *file) Parameters() sdk.Parameters { return sdk.Described(fileSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *file) Configure(ctx context.Context, settings map[string]string) (err error) {
	if err := sdk.Decode(settings, &p.settings); err != nil {
		return err
	}
	if err := sdk.CheckPath(ctx, "path", p.settings.Path); err != nil {
		return err
	}
	if p.key, err = fieldref.Parse(p.settings.Key); err != nil {
		return sdk.SettingError{Setting: "key", Message: err.Error()}
	}
	p.target, err = parseTarget(p.settings.Target)
	return err
}

// SchemaParts implements sdk.SchemaUser.
func (p *file) SchemaParts() schema.Parts { return fieldref.PartsOf(p.key, p.target) }

// NeverFound implements sdk.FieldReader.
func (p *file) NeverFound() []string { return fieldref.NeverFound(p.key) }

// Open implements sdk.Processor.
func (p *file) Open(ctx context.Context) (err error) {
	p.table, err = settingfile.Open(ctx, p.settings.Path, "the table", func(ctx context.Context) (table, error) {
		return readTable(ctx, p.settings)
	})
	return err
}

// Process implements sdk.Processor.
func (p *file) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	rows := p.table.Content(ctx)
	for i, r := range b.Records(ctx) {
		v, _, err := p.key.Get(r)
		if err != nil {
			b.Refuse(i, err)
			continue
		}
		text, err := record.Text(v)
		if err != nil {
			b.Refuse(i, err)
			continue
		}
		row, ok := rows[text]
		if !ok {
			onMissing(b, i, p.settings.Missing, strconv.Quote(text))
			continue
		}
		err = b.Take(i, record.ValueMemory(row))
		if err == nil {
			err = addRow(r, p.target, row)
		}
		if err != nil {
			b.Refuse(i, err)
		}
	}
	return ctx.Err()
}

// wanted reports whether to add a column.
func (s *fileSettings) wanted(column, keyColumn string) bool {
	if len(s.Columns) == 0 {
		return column != keyColumn
	}
	return slices.Contains(s.Columns, column)
}
