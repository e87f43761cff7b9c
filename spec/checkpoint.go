package spec

import "github.com/conduit-agent/conduit/plugins/record"

// Checkpoint is the place to resume one source from: the position up to which every record
// is settled.
type Checkpoint struct {
	ConnectorID string // qualified
	PipelineID  string
	Plugin      string // name of the one that can read the position
	Position    record.Position
	Epoch       int64 // of the run that saves it
	Sequence    int64 // number of records settled in that run
}
