package rest

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Diff is the difference between two versions of a pipeline.
type Diff struct {
	ID string `json:"id"`
	// Left out when the pipeline was new.
	From *Version `json:"from,omitempty"`
	To   Version  `json:"to"`
	// Changes, ordered by path.
	Changes []ValueChanged `json:"changes"`
}

// Version is a declared version of a pipeline.
type Version struct {
	Generation int64 `json:"generation"`
	// Number in the history; left out when the history no longer has it.
	Revision int64     `json:"revision,omitempty"`
	At       time.Time `json:"at,omitzero"`
	Origin   string    `json:"origin,omitempty"`
}

// ValueChanged is a change with the values before and after it.
type ValueChanged struct {
	spec.Change
	// Value before the change; *** for a secret. Left out when there was none, or when the change affects several
	// fields.
	Old *string `json:"old,omitempty"`
	// Value after the change, in the same form.
	New *string `json:"new,omitempty"`
}
