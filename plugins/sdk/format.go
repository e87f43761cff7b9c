package sdk

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// Format appends the text form of r to dst and returns the longer slice. On error it
// returns dst as it was given.
type Format func(dst []byte, r *record.Record) ([]byte, error)

// RecordFormat returns the format that the settings of this destination chose for its
// records, the default JSON form when they say nothing. It is there from Configure on.
func RecordFormat(ctx context.Context) Format {
	if f := EnvFrom(ctx).format; f != nil {
		return f
	}
	return record.AppendJSON
}

// newFormat returns the format of that name, nil for the default JSON form. A template
// executes within budget.
func newFormat(name, options string, budget *template.Budget) (Format, error) {
	switch name {
	case "debezium/json":
		return newDebezium(options)
	case "template":
		return newTemplate(options, budget)
	}
	return nil, nil
}
