package sdk

import (
	"context"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// Format appends the text form of r to dst and returns the extended slice. On error it returns dst unchanged.
type Format func(dst []byte, r *record.Record) ([]byte, error)

// RecordFormat returns the record format in the settings of this destination, or the default JSON form. It is available
// from Configure on.
func RecordFormat(ctx context.Context) Format {
	if f := EnvFrom(ctx).format; f != nil {
		return f
	}
	return record.AppendJSON
}

// RecordHeader returns the line without a line break that a destination of lines writes at the beginning of each file
// or object, before the first record. It is empty if the format has none. It is available from Configure on.
func RecordHeader(ctx context.Context) []byte { return EnvFrom(ctx).header }

// CheckFormat returns the errors in the format settings of a destination, such as an invalid template or an unknown
// option.
func CheckFormat(settings map[string]string) []SettingError {
	options := settings[settingFormatOptions]
	if _, err := newFormat(settings["sdk.record.format"], options, &template.TimeLimit{}); err != nil {
		return []SettingError{{settingFormatOptions, err.Error()}}
	}
	return nil
}

// formatReadable is the format for human readers, with text as text.
const formatReadable = "opencdc/text"

const settingFormatOptions = "sdk.record.format.options"

// textFormat is a format in the settings. The zero value is the default JSON form.
type textFormat struct {
	append  Format
	payload bool   // the text of a raw record is its payload, and nothing else
	header  []byte // see RecordHeader
}

// newFormat returns the format with that name. A template executes within timeLimit.
func newFormat(name, options string, timeLimit *template.TimeLimit) (f textFormat, err error) {
	switch name {
	case formatReadable:
		f.append = record.AppendReadable
	case "debezium/json":
		f.append, err = newDebezium(options)
	case "template":
		f.append, f.payload, err = newTemplate(options, timeLimit)
	case "csv":
		f.append, f.header, err = newCSV(options)
	case "logfmt":
		f.append, err = newLogfmt(options)
	}
	return f, err
}

// debeziumOptions are the options of the format debezium/json.
type debeziumOptions struct {
	Name   string `json:"debezium.schema.name"`
	RawKey string `json:"debezium.rawData.key" default:"opencdc.rawData"`
}

func newDebezium(text string) (Format, error) {
	settings := map[string]string{}
	for _, option := range splitList(text) {
		if option == "" {
			continue
		}
		k, v, ok := strings.Cut(option, "=")
		if !ok {
			return nil, fmt.Errorf("cannot parse option %q: use name=value", option)
		}
		settings[k] = v
	}
	var options debeziumOptions
	if err := Decode(settings, &options); err != nil {
		return nil, err
	}
	return debeziumFormat(options).Append, nil
}
