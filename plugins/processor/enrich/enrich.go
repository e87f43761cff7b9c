// Package enrich has the processors that add data from a file or an HTTP service to a record.
package enrich

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{
		{
			Name: "enrich.file", Version: "v0.1.0", Author: "conduit",
			Summary: "Adds fields from a table in a file.",
			Description: "The table is CSV with a line of names, or a JSON list of objects. It is read again when " +
				"the file changes; while it cannot be read, the table from before is used.",
			New: func() sdk.Processor { return &file{} },
		},
		{
			Name: "enrich.http", Version: "v0.1.0", Author: "conduit",
			Summary: "Adds the response of an HTTP service.",
			Description: "Responses are cached by URL. A request without a response, or with status 429 or 5xx, is " +
				"retried with exponential backoff and jitter; any other status from 400 on refuses the record, " +
				"except 404, which means that there is nothing to add.",
			New: func() sdk.Processor { return &web{} },
		},
	}
}

// onMissing applies the setting to record i when there is nothing to add.
func onMissing(b *sdk.ProcessBatch, i int, setting, what string) {
	switch setting {
	case "refuse":
		b.Refuse(i, fmt.Errorf("there is nothing for %s", what))
	case "filter":
		b.Filter(i)
	}
}

// parseTarget parses the reference to the field that gets the added data.
func parseTarget(text string) (*fieldref.Ref, error) {
	ref, err := fieldref.Parse(text)
	if err == nil {
		switch ref.Root() {
		case fieldref.Key, fieldref.Before, fieldref.After, fieldref.Metadata:
		default:
			err = fmt.Errorf("nothing can be added to %s", ref)
		}
	}
	if err != nil {
		return nil, sdk.SettingError{Setting: "target", Message: err.Error()}
	}
	return ref, nil
}

// addRow sets the values of the row in fields below target.
func addRow(r *record.Record, target *fieldref.Ref, row map[string]any) error {
	for name, v := range row {
		ref := target.Child(name)
		if ref.Root() == fieldref.Metadata {
			text, err := record.Text(v)
			if err != nil {
				return err
			}
			v = text
		}
		if err := ref.Set(r, record.CloneValue(v)); err != nil {
			return err
		}
	}
	return nil
}
