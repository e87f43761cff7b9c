package spec

// File is what a pipeline file says, and what is wrong with it.
type File struct {
	Pipelines []Parsed
	Problems  []Problem
	// Broken reports that some part of the file could not be read as pipelines, so the
	// absence of a pipeline from Pipelines does not mean that the file withdrew it.
	Broken bool
	// Invalid are the ids of pipelines that the file declares but that have errors.
	Invalid []string
}

// Parsed is one pipeline of a file that has no error.
type Parsed struct {
	Pipeline Pipeline
	Line     int             // where it starts
	Marks    map[string]Mark // JSON pointer within the pipeline ("/connectors/0/settings/rate") → where it stands
}

// Mark is a place in a file, counted from 1.
type Mark struct{ Line, Column int }
