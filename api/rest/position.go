package rest

// Position is the position from which a source resumes.
type Position struct {
	ConnectorID string `json:"connectorId"`
	PipelineID  string `json:"pipelineId"`
	Plugin      string `json:"plugin" doc:"Plugin of the source as declared."`
	Position    []byte `json:"position,omitempty" doc:"Left out when there is none: the source then begins where its settings say."`
	SavedBy     string `json:"savedBy,omitempty" doc:"Plugin that saved the position. Another plugin cannot read it and begins anew."`
	Epoch       int64  `json:"epoch,omitempty" doc:"Number of the run that saved the position."`
	Records     int64  `json:"records,omitempty" doc:"Records settled in that run."`
	Consequence string `json:"consequence,omitempty" doc:"Effect of moving to the position in the query: the records that are delivered again or skipped."`
}

// SetPosition moves the position from which a source resumes.
type SetPosition struct {
	Position []byte `json:"position"`
}
