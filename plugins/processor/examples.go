package processor

import (
	"bytes"
	"embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// exampleFiles has the examples of the built-in processors, in a file for each. The documentation page and 'conduit
// plugins describe' show them, and a test runs them.
//
//go:embed examples/*.yaml
var exampleFiles embed.FS

// Example is a record and the result of a processor. In the file of an example, text is raw data and an object is
// structured data.
type Example struct {
	Title     string            `yaml:"title"`
	Settings  map[string]string `yaml:"settings"`
	Condition string            `yaml:"condition"`
	Schemas   []string          `yaml:"schemas"` // registered with the ids 1, 2, …
	Before    []ExampleRecord   `yaml:"before"`  // records that were processed before
	In        ExampleRecord     `yaml:"in"`
	Out       []ExampleRecord   `yaml:"out"`
	Error     string            `yaml:"error"` // why the record is refused
	NoRun     bool              `yaml:"norun"` // it needs a service; tests in the processor's package run it
}

// ExampleRecord is a record of an example.
type ExampleRecord struct {
	Operation string            `yaml:"operation,omitempty"`
	Metadata  map[string]string `yaml:"metadata,omitempty,flow"`
	Key       any               `yaml:"key,omitempty,flow"`
	Before    any               `yaml:"before,omitempty,flow"`
	After     any               `yaml:"after,omitempty,flow"`
}

// Examples returns the examples of the processor with this name, or none if the processor is not built in.
func Examples(name string) ([]Example, error) {
	b, err := exampleFiles.ReadFile("examples/" + name + ".yaml")
	if err != nil {
		return nil, nil //nolint:nilerr // modules have no examples
	}
	var all []Example
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("cannot read the examples of %s: %w", name, err)
	}
	return all, nil
}

// ExampleNames returns the names of the processors with examples.
func ExampleNames() []string {
	var names []string
	found, _ := exampleFiles.ReadDir("examples") // cannot fail: the files are compiled in
	for _, f := range found {
		names = append(names, f.Name()[:len(f.Name())-len(".yaml")])
	}
	return names
}

// Text returns the example as YAML: the declaration and the records.
func (e *Example) Text() (string, error) {
	var text bytes.Buffer
	var failed error
	write := func(name string, v any) {
		enc := yaml.NewEncoder(&text)
		enc.SetIndent(2)
		if err := enc.Encode(map[string]any{name: v}); err != nil && failed == nil {
			failed = err
		}
	}
	if e.Condition != "" {
		write("condition", e.Condition)
	}
	if len(e.Settings) > 0 {
		write("settings", e.Settings)
	}
	for _, r := range e.Before {
		write("before", r)
	}
	write("in", e.In)
	switch {
	case e.Error != "":
		write("refused", e.Error)
	case len(e.Out) == 0:
		fmt.Fprintln(&text, "out: []")
	default:
		write("out", e.Out)
	}
	return text.String(), failed
}
