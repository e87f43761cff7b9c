// Package schemas has the JSON Schema of pipeline files, and validates decoded values against JSON Schemas.
package schemas

import (
	"bytes"
	_ "embed" // for the schema
	"encoding/json"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Document is a JSON Schema.
type Document struct {
	name string
	text []byte
	load func() *document
}

// document is a schema in the two forms that validation needs.
type document struct {
	schema *jsonschema.Schema
	source any // decoded, to look up the value of a keyword
}

//go:embed pipeline-2.2.json
var pipelineFile []byte

// PipelineFile is the schema of one document of a pipeline file, versions 2.0 to 2.2.
var PipelineFile = New("pipeline-2.2.json", pipelineFile)

// New returns the schema with this text. Its first use panics if the text is not a JSON Schema.
func New(name string, text []byte) *Document {
	d := &Document{name: name, text: text}
	d.load = sync.OnceValue(func() *document { return &document{compile(name, text), decoded(name, text)} })
	return d
}

// Source returns the text of the schema, for editors.
func (d *Document) Source() []byte { return d.text }

// compile returns the compiled form of text. Schemas are part of the binary and tested, so one that does not compile is
// a mistake in it and panics.
func compile(name string, text []byte) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	err := c.AddResource(name, bytes.NewReader(text))
	if err == nil {
		var s *jsonschema.Schema
		if s, err = c.Compile(name); err == nil {
			return s
		}
	}
	panic(fmt.Sprintf("schemas: cannot compile %s: %v", name, err))
}

// decoded returns the value of a document, with numbers as they are written.
func decoded(name string, text []byte) (source any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&source); err != nil {
		panic(fmt.Sprintf("schemas: cannot decode %s: %v", name, err))
	}
	return source
}
