package rest

import "github.com/conduit-agent/conduit/spec"

// EditorRequest is a pipeline file in the editor, and the cursor.
type EditorRequest struct {
	// Path of the file, for problems; left out for a new file.
	Path    string `json:"path,omitempty"`
	Content string `json:"content"`
	// Line of the cursor, from 1; 0 for no completions.
	Line int `json:"line,omitempty"`
	// Column of the cursor in characters, from 1.
	Column int `json:"column,omitempty"`
}

// EditorAnswer has the problems of the file in the editor and the completions at the cursor.
type EditorAnswer struct {
	// Problems as in conduit pipelines validate, including plugins and their settings.
	Problems []spec.Problem `json:"problems"`
	// Completions, the most likely first.
	Completions []Completion `json:"completions"`
	// Pipelines without errors, in the form that /v1/pipelines/plan accepts.
	Documents []PipelineDocument `json:"documents"`
}

// Completion is text that is valid at the cursor.
type Completion struct {
	Label  string `json:"label"`
	Detail string `json:"detail,omitempty"`
	// Text to insert.
	Insert string `json:"insert"`
	// Number of characters before the cursor to replace.
	Replace int `json:"replace,omitempty"`
}
