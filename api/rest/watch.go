package rest

import (
	"encoding/json"

	"github.com/conduit-agent/conduit/spec"
)

// WatchSession is the message "session": the permissions of the client.
type WatchSession struct {
	// admin, or read for a client that can change nothing.
	Role string `json:"role"`
}

// WatchStatuses is the message "statuses": the pipelines whose status has changed.
type WatchStatuses struct {
	// The list contains all pipelines.
	All bool `json:"all,omitempty"`
	// Statuses in the form of /v1/pipelines/{id}/status.
	Statuses []json.RawMessage `json:"statuses"`
	// Ids of pipelines that no longer exist.
	Gone []string `json:"gone"`
}

// WatchSeries is an element of the message "series": the last minutes of a pipeline, to which each message "rates" adds
// a value.
type WatchSeries struct {
	ID string `json:"id"`
	// Records per second, one value for each second, the newest last.
	Series []float64 `json:"series"`
}

// WatchFiles is the message "files": all pipeline files and their directory.
type WatchFiles struct {
	Files     []spec.FileState `json:"files"`
	Directory spec.Directory   `json:"directory"`
}
