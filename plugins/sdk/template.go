package sdk

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// newTemplate returns the format that executes text for every record, within timeLimit. payload reports whether that
// is the payload of raw records, and nothing else.
func newTemplate(text string, timeLimit *template.TimeLimit) (format Format, payload bool, err error) {
	t, err := template.Parse(text, template.Strict)
	if err != nil {
		return nil, false, err
	}
	return func(dst []byte, r *record.Record) ([]byte, error) {
		out, err := t.Append(timeLimit, dst, r)
		if err != nil {
			return dst, fmt.Errorf("cannot format the record: %w", err)
		}
		return out, nil
	}, t.PrintsPayload(), nil
}
