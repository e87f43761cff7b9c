package rest

// Position is the position from which a source resumes.
type Position struct {
	ConnectorID string `json:"connectorId"`
	PipelineID  string `json:"pipelineId"`
	// Plugin of the source as declared.
	Plugin string `json:"plugin"`
	// Left out when there is none: the source then begins where its settings say.
	Position []byte `json:"position,omitempty"`
	// Plugin that saved the position. Another plugin cannot read it and begins anew.
	SavedBy string `json:"savedBy,omitempty"`
	// Number of the run that saved the position.
	Epoch int64 `json:"epoch,omitempty"`
	// Records settled in that run.
	Records int64 `json:"records,omitempty"`
	// Effect of moving to the position in the query: the records that are delivered again or skipped.
	Consequence string `json:"consequence,omitempty"`
}

// SetPosition moves the position from which a source resumes.
type SetPosition struct {
	Position []byte `json:"position"`
}
