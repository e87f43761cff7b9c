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

// CheckFormat returns what is wrong with how the settings of a destination format its records: a
// template that cannot be parsed, an option that does not exist.
func CheckFormat(settings map[string]string) []SettingError {
	options := settings[settingFormatOptions]
	if _, err := newFormat(settings["sdk.record.format"], options, &template.Budget{}); err != nil {
		return []SettingError{{settingFormatOptions, err.Error()}}
	}
	return nil
}

const settingFormatOptions = "sdk.record.format.options"

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
