package dryrun

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/reconcile/watch"
)

// PipelineFile returns the path of the pipeline file for the test file at path.
func PipelineFile(path string) (string, bool) {
	if !watch.IsTestFile(filepath.Base(path)) {
		return "", false
	}
	ext := filepath.Ext(path)
	stem := strings.TrimSuffix(path, ext)
	return strings.TrimSuffix(stem, filepath.Ext(stem)) + ext, true
}

// File is a file of tests.
type File struct {
	Variables map[string]string `yaml:"variables"` // values of references such as ${NAME}
	Tests     []Test            `yaml:"tests"`
}

// Test is one test.
type Test struct {
	Line     int           `yaml:"-"`
	Name     string        `yaml:"name"`
	Pipeline string        `yaml:"pipeline"` // optional if the file declares one pipeline
	Start    time.Time     `yaml:"start"`    // initial time of the clock
	Input    []Input       `yaml:"input"`
	Advance  time.Duration `yaml:"advance"` // time that passes after the last record
	Expect   []Expectation `yaml:"expect"`
}

// Input is a record that a source reads.
type Input struct {
	Source string        `yaml:"source"` // optional if the pipeline has one source
	After  time.Duration `yaml:"wait"`   // time that passes before it
	Record Record        `yaml:"record"`
}

// Expectation is the expected content of a destination or of the dead-letter queue.
type Expectation struct {
	Destination string    `yaml:"destination"` // optional if the pipeline has one destination
	DeadLetters bool      `yaml:"dead-letters"`
	Equal       *[]Record `yaml:"equal"`    // exactly these records, in order
	Contains    []Record  `yaml:"contains"` // records that have these fields, in order; others may be between
	Each        string    `yaml:"each"`     // a condition that every record meets
	Count       *int      `yaml:"count"`    // number of records
	Error       string    `yaml:"error"`    // text in the error of every dead letter
}

// Record is a record in the syntax of tests: text is raw data, an object is structured data.
type Record struct {
	Position  string            `yaml:"position"`
	Operation string            `yaml:"operation"`
	Metadata  map[string]string `yaml:"metadata"`
	Key       value             `yaml:"key"`
	Payload   Payload           `yaml:"payload"`
}

// Payload is the payload of a record.
type Payload struct {
	Before value `yaml:"before"`
	After  value `yaml:"after"`
}

// value is a value of YAML whose numbers keep all their digits.
type value struct{ content any }

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *value) UnmarshalYAML(node *yaml.Node) error {
	if err := node.Decode(&v.content); err != nil {
		return err
	}
	v.content = exact(node, v.content)
	return nil
}

// exact returns v, decoded from the node, with the original text of the numbers that a float64 would change.
func exact(node *yaml.Node, v any) any {
	if node.Kind == yaml.AliasNode {
		return exact(node.Alias, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if inner, ok := v[key]; ok {
				v[key] = exact(node.Content[i+1], inner)
			}
		}
	case []any:
		for i := range min(len(v), len(node.Content)) {
			v[i] = exact(node.Content[i], v[i])
		}
	case float64, uint64:
		if node.Kind == yaml.ScalarNode && record.IsNumber(node.Value) {
			if n, ok := record.Number(node.Value).(json.Number); ok {
				return n
			}
		}
	}
	return v
}

// record returns the record, with the defaults for the record read as number n.
func (t Record) record(n int) (r record.Record, err error) {
	position, err := record.ParseReadableBytes(t.Position)
	if err != nil {
		return r, err
	}
	r = record.Record{Position: position, Operation: record.OperationCreate, Metadata: record.NewMetadata(t.Metadata)}
	if t.Position == "" {
		r.Position = fmt.Append(nil, n+1)
	}
	if t.Operation != "" {
		if r.Operation, err = record.ParseOperation(t.Operation); err != nil {
			return r, err
		}
	}
	for d, v := range map[*record.Data]any{&r.Key: t.Key.content, &r.Before: t.Payload.Before.content,
		&r.After: t.Payload.After.content} {
		if *d, err = data(v); err != nil {
			return r, err
		}
	}
	return r, nil
}

func data(v any) (record.Data, error) {
	switch v := v.(type) {
	case nil:
		return record.Data{}, nil
	case string:
		b, err := record.ParseReadableBytes(v)
		return record.Raw(b), err
	case map[string]any:
		m, _ := record.FromYAML(v).(map[string]any)
		return record.Structured(m), nil
	}
	return record.Data{}, fmt.Errorf("key, before and after are text or an object, not %v", v)
}
