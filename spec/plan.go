package spec

// PlanRequest has pipeline files to be saved in pipelines.path.
type PlanRequest struct {
	Files []PlanFile `json:"files"`
	// The files replace all present files.
	Replace bool `json:"replace,omitempty"`
}

// PlanFile is a pipeline file that is not saved yet.
type PlanFile struct {
	// Name of the file in pipelines.path.
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Plan is the set of changes that pipeline files would make if the agent read them now.
type Plan struct {
	// Pipelines that change, by id.
	Pipelines []PlannedPipeline `json:"pipelines"`
	// Problems of the files, and of the plugins and references of their pipelines. A pipeline with errors does not
	// change.
	Problems []Problem `json:"problems"`
	// Number of pipeline files after the change.
	Files int `json:"files"`
	// Set when all files are missing: the missing files. Their pipelines are withdrawn only when a file appears or a
	// reload with prune confirms it.
	Held []string `json:"held,omitempty"`

	// Time for which a pipeline that is no longer declared continues to run. If it is declared again within that time,
	// nothing happens.
	DeletionGrace string `json:"deletionGrace"`
	// Time for which its positions are kept after that.
	CleanupDelay string `json:"cleanupDelay"`
}

// PlannedPipeline is the planned change of a pipeline.
type PlannedPipeline struct {
	ID     string `json:"id"`
	Action Action `json:"action"`
	// Strongest effect of its changes; none if the pipeline does not run before or after.
	Effect Effect `json:"effect"`
	From   Status `json:"from,omitempty"`
	To     Status `json:"to,omitempty"`
	// File that declares the pipeline, or declared it.
	File string `json:"file"`
	// Line of the pipeline in the file.
	Line    int             `json:"line,omitempty"`
	Changes []PlannedChange `json:"changes"`
	// For each source of lines: on if its lines pass as they are, without becoming records, or off and the reason.
	RawLane map[string]string `json:"rawLane,omitempty"` // by the id of the source
	// For each source: facts that are in order and may surprise, such as a pattern that matches no file. For each isolated
	// destination: its limits, and what becomes of the records that wait for it.
	Notes map[string][]string `json:"notes,omitempty"` // by the id of the connector
}

// PlannedChange is a change and its place in the file.
type PlannedChange struct {
	Change
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}
