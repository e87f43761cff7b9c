package spec

// PlanRequest has pipeline files to be saved in pipelines.path.
type PlanRequest struct {
	Files   []PlanFile `json:"files"`
	Replace bool       `json:"replace,omitempty" doc:"The files replace all present files."`
}

// PlanFile is a pipeline file that is not saved yet.
type PlanFile struct {
	Path    string `json:"path" doc:"Name of the file in pipelines.path."`
	Content string `json:"content"`
}

// Plan is the set of changes that pipeline files would make if the agent read them now.
type Plan struct {
	Pipelines []PlannedPipeline `json:"pipelines" doc:"Pipelines that change, by id."`
	Problems  []Problem         `json:"problems" doc:"Problems of the files, and of the plugins and references of their pipelines. A pipeline with errors does not change."`
	Files     int               `json:"files" doc:"Number of pipeline files after the change."`
	Held      []string          `json:"held,omitempty" doc:"Set when all files are missing: the missing files. Their pipelines are withdrawn only when a file appears or a reload with prune confirms it."`

	DeletionGrace string `json:"deletionGrace" doc:"Time for which a pipeline that is no longer declared continues to run. If it is declared again within that time, nothing happens."`
	CleanupDelay  string `json:"cleanupDelay" doc:"Time for which its positions are kept after that."`
}

// PlannedPipeline is the planned change of a pipeline.
type PlannedPipeline struct {
	ID      string          `json:"id"`
	Action  Action          `json:"action"`
	Effect  Effect          `json:"effect" doc:"Strongest effect of its changes; none if the pipeline does not run before or after."`
	From    Status          `json:"from,omitempty"`
	To      Status          `json:"to,omitempty"`
	File    string          `json:"file" doc:"File that declares the pipeline, or declared it."`
	Line    int             `json:"line,omitempty" doc:"Line of the pipeline in the file."`
	Changes []PlannedChange `json:"changes"`
	// RawLane has the sources of lines by their id.
	RawLane map[string]string `json:"rawLane,omitempty" doc:"For each source of lines: on if its lines pass as they are, without becoming records, or off and the reason."`
	// Notes has the sources with notes by their id.
	Notes map[string][]string `json:"notes,omitempty" doc:"For each source: facts that are in order and may surprise, such as a pattern that matches no file."`
}

// PlannedChange is a change and its place in the file.
type PlannedChange struct {
	Change
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}
