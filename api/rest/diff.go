package rest

import (
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Diff is the difference between two versions of a pipeline.
type Diff struct {
	ID      string         `json:"id"`
	From    *Version       `json:"from,omitempty" doc:"Absent when the pipeline was new."`
	To      Version        `json:"to"`
	Changes []ValueChanged `json:"changes" doc:"By path."`
}

// Version is a declared version of a pipeline.
type Version struct {
	Generation int64     `json:"generation"`
	Revision   int64     `json:"revision,omitempty" doc:"Number in the history, if it is still there."`
	At         time.Time `json:"at,omitzero"`
	Origin     string    `json:"origin,omitempty"`
}

// ValueChanged is a change with the values before and after it.
type ValueChanged struct {
	spec.Change
	Old *string `json:"old,omitempty" doc:"Value before; *** if it is secret. Absent when there was none, or more than one field."`
	New *string `json:"new,omitempty" doc:"Value after, in the same way."`
}
