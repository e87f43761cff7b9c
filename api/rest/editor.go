package rest

import "github.com/conduit-agent/conduit/spec"

// EditorRequest is a pipeline file in the editor, and the cursor.
type EditorRequest struct {
	Path    string `json:"path,omitempty" doc:"Path of the file, for problems; left out for a new file."`
	Content string `json:"content"`
	Line    int    `json:"line,omitempty" doc:"Line of the cursor, from 1; 0 for no completions."`
	Column  int    `json:"column,omitempty" doc:"Column of the cursor in characters, from 1."`
}

// EditorAnswer has the problems of the file in the editor and the completions at the cursor.
type EditorAnswer struct {
	Problems    []spec.Problem     `json:"problems" doc:"Problems as in conduit pipelines validate, including plugins and their settings."`
	Completions []Completion       `json:"completions" doc:"Completions, the most likely first."`
	Documents   []PipelineDocument `json:"documents" doc:"Pipelines without errors, in the form that /v1/pipelines/plan accepts."`
}

// Completion is text that is valid at the cursor.
type Completion struct {
	Label   string `json:"label"`
	Detail  string `json:"detail,omitempty"`
	Insert  string `json:"insert" doc:"Text to insert."`
	Replace int    `json:"replace,omitempty" doc:"Number of characters before the cursor to replace."`
}
