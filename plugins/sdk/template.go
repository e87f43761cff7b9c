package sdk

import (
	"bytes"
	"fmt"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"github.com/conduit-agent/conduit/plugins/record"
)

// templateRecord is what a template sees of a record.
type templateRecord struct {
	Position  templateBytes
	Operation record.Operation
	Metadata  map[string]string
	Key       any
	Payload   templatePayload
}

type templatePayload struct {
	Before, After any // nil, templateBytes or map[string]any
}

// templateBytes are raw bytes that print as text.
type templateBytes []byte

func (b templateBytes) String() string { return string(b) }

// newTemplate returns the format that executes text for every record. Functions that
// reach out of the record are not there.
func newTemplate(text string) (Format, error) {
	funcs := sprig.TxtFuncMap()
	for _, name := range []string{"env", "expandenv", "getHostByName"} {
		delete(funcs, name)
	}
	t, err := template.New("record").Option("missingkey=error").Funcs(funcs).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the template: %w", err)
	}
	return func(dst []byte, r *record.Record) ([]byte, error) {
		b := bytes.NewBuffer(dst)
		err := t.Execute(b, templateRecord{
			Position:  templateBytes(r.Position),
			Operation: r.Operation,
			Metadata:  r.Metadata.Map(),
			Key:       templateData(r.Key),
			Payload:   templatePayload{templateData(r.Before), templateData(r.After)},
		})
		if err != nil {
			return dst, fmt.Errorf("cannot format the record: %w", err)
		}
		return b.Bytes(), nil
	}, nil
}

func templateData(d record.Data) any {
	if b, ok := d.Raw(); ok {
		return templateBytes(b)
	}
	if m, ok := d.Structured(); ok {
		return m
	}
	return nil
}
