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
var files embed.FS

// compiled maps a Document to its *document; a cache only.
var compiled sync.Map

// document is a schema in the two forms validating needs.
type document struct {
	schema *jsonschema.Schema
	source any // decoded, to look up what a keyword demands
}

// Source returns the text of doc, for editors. It panics if doc is not one of the
// documents of this package.
func Source(doc Document) []byte {
	text, err := files.ReadFile(string(doc))
	if err != nil {
		panic(fmt.Sprintf("schemas: no document %q", doc))
	}
	return text
}

// load returns the compiled form of doc. The documents are embedded and tested, so
// one that does not compile is a mistake in this package and panics.
func load(doc Document) *document {
	if d, ok := compiled.Load(doc); ok {
		return d.(*document)
	}
	text := Source(doc)
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	d := &document{}
	err := json.Unmarshal(text, &d.source)
	if err == nil {
		err = c.AddResource(string(doc), bytes.NewReader(text))
	}
	if err == nil {
		d.schema, err = c.Compile(string(doc))
	}
	if err != nil {
		panic(fmt.Sprintf("schemas: cannot compile %s: %v", doc, err))
	}
	compiled.Store(doc, d)
	return d
}
