package rest

import "github.com/conduit-agent/conduit/spec"

// EditorRequest is a pipeline file in the editor, and the cursor.
type EditorRequest struct {
	Path    string `json:"path,omitempty" doc:"Of the file, if it has one: problems name it."`
	Content string `json:"content"`
	Line    int    `json:"line,omitempty" doc:"Of the cursor, from 1; 0 when no completions are wanted."`
	Column  int    `json:"column,omitempty" doc:"Of the cursor in characters, from 1."`
}

// EditorAnswer has the problems of the file in the editor and the completions at the cursor.
type EditorAnswer struct {
	Problems    []spec.Problem     `json:"problems" doc:"As conduit pipelines validate shows them, plugins and settings included."`
	Completions []Completion       `json:"completions" doc:"The likely first."`
	Documents   []PipelineDocument `json:"documents" doc:"The pipelines without errors, as /v1/pipelines/plan takes them."`
}

// Completion is text that is valid at the cursor.
type Completion struct {
	Label   string `json:"label"`
	Detail  string `json:"detail,omitempty"`
	Insert  string `json:"insert" doc:"What to put there."`
	Replace int    `json:"replace,omitempty" doc:"How many characters before the cursor it replaces."`
}
