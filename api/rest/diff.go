package rest

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Diff is the difference between two versions of a pipeline.
type Diff struct {
	ID      string         `json:"id"`
	From    *Version       `json:"from,omitempty" doc:"Left out when the pipeline was new."`
	To      Version        `json:"to"`
	Changes []ValueChanged `json:"changes" doc:"Changes, ordered by path."`
}

// Version is a declared version of a pipeline.
type Version struct {
	Generation int64     `json:"generation"`
	Revision   int64     `json:"revision,omitempty" doc:"Number in the history; left out when the history no longer has it."`
	At         time.Time `json:"at,omitzero"`
	Origin     string    `json:"origin,omitempty"`
}

// ValueChanged is a change with the values before and after it.
type ValueChanged struct {
	spec.Change
	Old *string `json:"old,omitempty" doc:"Value before the change; *** for a secret. Left out when there was none, or when the change affects several fields."`
	New *string `json:"new,omitempty" doc:"Value after the change, in the same form."`
}
