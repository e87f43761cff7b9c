// Package yamldoc converts YAML that people write to plain values, with the place of each value in the text. It limits
// the expanded size of a text before it creates any values.
package yamldoc

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Mark is a place in a text, counted from 1.
type Mark struct{ Line, Column int }

// Place is the place of a value and of its name. The name of a list item is at the place of the item.
type Place struct{ Key, Value Mark }

// Kind is the kind of a fault.
type Kind int

// The kinds of faults.
const (
	Unreadable   Kind = iota // no YAML, or too large
	DuplicateKey             // a duplicate field
	Invalid                  // YAML without a meaning here
)

// Fault is a fault in a text, in words that include a remedy.
type Fault struct {
	Mark
	Kind    Kind
	Path    string // JSON pointer of the value in its document; empty for Unreadable
	Message string
}

// Document is a document of a text.
type Document struct {
	Root   Mark             // start of the document
	Value  any              // map[string]any, []any, string and int; faulty values are left out
	Places map[string]Place // by JSON pointer; the pointer of Value is ""
	Faults []Fault
	Nulls  []string // JSON pointers of the texts that are written as null or ~, sorted
	// TooLarge reports that the document exceeds a limit. It has one Fault and no Value.
	TooLarge bool
}

// Grammar defines the meaning of scalars by the JSON pointers of their values.
type Grammar struct {
	Typed func(at string) bool // a whole number there is an int, and true or false a bool; all else is text, as written
	Text  func(at string) bool // a null there is the empty text; elsewhere the value is absent
}

// Read returns the non-empty documents of text, and the faults that belong to no document: a syntax error ends its
// document, but not the documents after it.
func Read(text []byte, g Grammar) ([]Document, []Fault) {
	text, fault := checkText(text)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	var docs []Document
	var faults []Fault
	nodes := 0
	for _, c := range split(text) {
		roots, fault := c.parse()
		for _, root := range roots {
			docs = append(docs, g.read(root, &nodes))
		}
		if fault != nil {
			faults = append(faults, *fault)
		}
	}
	return docs, faults
}

// read reads the document below root. nodes counts over all documents.
func (g Grammar) read(root *yaml.Node, nodes *int) Document {
	at := mark(root)
	if fault := checkBounds(root, nodes); fault != nil {
		return Document{Root: at, Places: map[string]Place{}, Faults: []Fault{*fault}, TooLarge: true}
	}
	r := reader{Grammar: g, places: map[string]Place{"": {at, at}}}
	value, _ := r.value(root, "")
	slices.Sort(r.nulls)
	return Document{Root: at, Value: value, Places: r.places, Faults: r.faults, Nulls: r.nulls}
}
