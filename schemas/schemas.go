// Package schemas holds the JSON Schema documents of the files people write, and
// validates decoded values against them.
package schemas

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
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

// compiled caches the *document of a Document, or of a part.
var compiled sync.Map

// part is a Document restricted to one property.
type part struct {
	doc  Document
	path string // its names, separated by slashes
}

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

// loadPart returns the compiled form of doc with only the properties along path. That takes a small part of the time
// for the whole document.
func loadPart(doc Document, path []string) *document {
	key := part{doc, strings.Join(path, "/")}
	if d, ok := compiled.Load(key); ok {
		return d.(*document)
	}
	source := decoded(doc)
	text, err := json.Marshal(prune(source, path))
	if err != nil {
		panic(fmt.Sprintf("schemas: cannot encode a part of %s: %v", doc, err))
	}
	d := &document{compile(doc, text), source}
	compiled.Store(key, d)
	return d
}

// prune returns a copy of a schema with only the properties along path.
func prune(schema any, path []string) any {
	s, _ := schema.(map[string]any)
	known, _ := s["properties"].(map[string]any)
	if known == nil || len(path) == 0 {
		return schema
	}
	pruned, kept := maps.Clone(s), map[string]any{}
	if property, ok := known[path[0]]; ok {
		kept[path[0]] = prune(property, path[1:])
	}
	pruned["properties"] = kept
	return pruned
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

// values caches the results of decoded by Document.
var values sync.Map

// decoded returns the value of a document, with numbers as they are written. The caller must not change it.
func decoded(doc Document) (source any) {
	if source, ok := values.Load(doc); ok {
		return source
	}
	d := json.NewDecoder(bytes.NewReader(Source(doc)))
	d.UseNumber()
	if err := d.Decode(&source); err != nil {
		panic(fmt.Sprintf("schemas: cannot decode %s: %v", doc, err))
	}
	values.Store(doc, source)
	return source
}
