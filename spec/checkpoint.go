package spec

import (
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Checkpoint is the place from which a source resumes: the position up to which every record is settled.
type Checkpoint struct {
	ConnectorID string // qualified
	PipelineID  string
	Plugin      string // name of the plugin that can read the position; "" for any
	Position    record.Position
	Epoch       int64 // of the run that saves it
	Sequence    int64 // number of records settled in that run
}

// PositionFor returns the position for the plugin of this name. It returns nil when c is nil, or another plugin saved
// the position, so that the bytes may mean anything.
func (c *Checkpoint) PositionFor(plugin string) record.Position {
	if c == nil || c.Plugin != "" && pluginname.Bare(c.Plugin) != plugin {
		return nil
	}
	return c.Position
}
