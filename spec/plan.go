package spec

// PlanRequest has pipeline files to be saved in pipelines.path.
type PlanRequest struct {
	Files   []PlanFile `json:"files"`
	Replace bool       `json:"replace,omitempty" doc:"They are to be all files there are; files that are not among them will be gone."`
}

// PlanFile is a pipeline file that is not saved yet.
type PlanFile struct {
	Path    string `json:"path" doc:"Name of the file in pipelines.path."`
	Content string `json:"content"`
}

// Plan is the set of changes that pipeline files would make if the agent read them now.
type Plan struct {
	Pipelines []PlannedPipeline `json:"pipelines" doc:"Those that change, by id."`
	Problems  []Problem         `json:"problems" doc:"Of the files, and of what their pipelines need. What has errors stays as it is."`
	Files     int               `json:"files" doc:"Number of pipeline files there would be."`
	Held      []string          `json:"held,omitempty" doc:"Files that are gone with all others, so that nothing is withdrawn until one appears or a reload with prune confirms it."`

	DeletionGrace string `json:"deletionGrace" doc:"How long a pipeline that is no longer declared runs on. Nothing happens if it is back by then."`
	CleanupDelay  string `json:"cleanupDelay" doc:"How long its positions are kept from then on."`
}

// PlannedPipeline is the planned change of a pipeline.
type PlannedPipeline struct {
	ID      string          `json:"id"`
	Action  Action          `json:"action"`
	Effect  Effect          `json:"effect" doc:"The severest of its changes; none if it neither runs nor will."`
	From    Status          `json:"from,omitempty"`
	To      Status          `json:"to,omitempty"`
	File    string          `json:"file" doc:"That declares it, or did."`
	Line    int             `json:"line,omitempty" doc:"Of the pipeline in the file."`
	Changes []PlannedChange `json:"changes"`
}

// PlannedChange is a change and its place in the file.
type PlannedChange struct {
	Change
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}
