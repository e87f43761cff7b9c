// Package schemas holds the JSON Schema documents of the files people write, and
// validates decoded values against them.
package schemas

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Document names a schema document by its file name.
type Document string

// The schema documents.
const (
	AgentConfig  Document = "conduit.json"      // conduit.yaml, the agent's own settings
	PipelineFile Document = "pipeline-2.2.json" // one document of a pipeline file, versions 2.0 to 2.2
)

//go:embed *.json
var documents embed.FS

// compiled caches the *document of a Document.
var compiled sync.Map

// document is a schema in the two forms that validation needs.
type document struct {
	schema *jsonschema.Schema
	source any // decoded, to look up the value of a keyword
}

// Source returns the text of doc, for editors. It panics if doc is not a document of this package.
func Source(doc Document) []byte {
	text, err := documents.ReadFile(string(doc))
	if err != nil {
		panic(fmt.Sprintf("schemas: no document %q", doc))
	}
	return text
}

// load returns the compiled form of doc.
func load(doc Document) *document {
	if d, ok := compiled.Load(doc); ok {
		return d.(*document)
	}
	d := &document{compile(doc, Source(doc)), decoded(doc)}
	compiled.Store(doc, d)
	return d
}

// compile returns the compiled form of text. The documents are embedded and tested, so a document that does not compile
// is a mistake in this package and panics.
func compile(doc Document, text []byte) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	err := c.AddResource(string(doc), bytes.NewReader(text))
	if err == nil {
		var s *jsonschema.Schema
		if s, err = c.Compile(string(doc)); err == nil {
			return s
		}
	}
	panic(fmt.Sprintf("schemas: cannot compile %s: %v", doc, err))
}

// decoded returns the value of a document, with numbers as they are written.
func decoded(doc Document) (source any) {
	d := json.NewDecoder(bytes.NewReader(Source(doc)))
	d.UseNumber()
	if err := d.Decode(&source); err != nil {
		panic(fmt.Sprintf("schemas: cannot decode %s: %v", doc, err))
	}
	return source
}
