package deadletter

import "github.com/conduit-agent/conduit/plugins/record"

// Letter is a refused record on its way to the dead-letter store.
type Letter struct {
	SourceID    string        // qualified, of the source it came from
	Record      record.Record // as it was refused; before it was split or held, if it was
	RefusedBy   string        // qualified id of the processor or destination
	Destination bool          // RefusedBy is one
	// Entry is the qualified id of the processor or destination that the record was to get
	// to next: RefusedBy, or the processor that split it or held it.
	Entry   string
	Err     error // without secrets
	Stopped bool  // it ends the run, and the source delivers it again
}
