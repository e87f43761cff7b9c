package fields

import (
	"context"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// rename renames fields.
type rename struct {
	references
	names []string
}

type renameSettings struct {
	// Comma list of reference:name, the field and its name from then on.
	Mapping string `json:"mapping" validate:"required"`
}

// Parameters implements sdk.Processor.
func (p *rename) Parameters() sdk.Parameters { return sdk.Described(renameSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *rename) Configure(_ context.Context, settings map[string]string) error {
	var s renameSettings
	if err := sdk.Decode(settings, &s); err != nil {
		return err
	}
	for entry := range strings.SplitSeq(s.Mapping, ",") {
		if err := p.add(entry); err != nil {
			return sdk.SettingError{Setting: "mapping", Message: err.Error()}
		}
	}
	return nil
}

func (p *rename) add(entry string) error {
	from, to, ok := strings.Cut(entry, ":")
	if !ok || strings.Contains(to, ":") {
		return fmt.Errorf("%q has the wrong format: want reference:name", strings.TrimSpace(entry))
	}
	from, to = strings.TrimSpace(from), strings.TrimSpace(to)
	ref, err := fieldref.Parse(from)
	switch {
	case err != nil:
		return err
	case !ref.IsNested():
		return fmt.Errorf("cannot rename one of the top-level fields %q", from)
	case to == "":
		return fmt.Errorf("cannot rename the field %q to an empty name", from)
	}
	p.refs, p.names = append(p.refs, ref), append(p.names, to)
	return nil
}

// Process implements sdk.Processor.
func (p *rename) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	return b.EachUntil(ctx, func(r *record.Record) error {
		for i, ref := range p.refs {
			if err := ref.Rename(r, p.names[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
