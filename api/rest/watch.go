package rest

import (
	"encoding/json"

	"github.com/conduit-agent/conduit/spec"
)

// WatchSession is the message "session": the permissions of the client.
type WatchSession struct {
	Role string `json:"role" doc:"admin, or read for a client that can change nothing."`
}

// WatchStatuses is the message "statuses": the pipelines whose status has changed.
type WatchStatuses struct {
	All      bool              `json:"all,omitempty" doc:"The list contains all pipelines."`
	Statuses []json.RawMessage `json:"statuses" doc:"Statuses in the form of /v1/pipelines/{id}/status."`
	Gone     []string          `json:"gone" doc:"Ids of pipelines that no longer exist."`
}

// WatchSeries is an element of the message "series": the last minutes of a pipeline, to which each message "rates" adds
// a value.
type WatchSeries struct {
	ID     string    `json:"id"`
	Series []float64 `json:"series" doc:"Records per second, one value for each second, the newest last."`
}

// WatchFiles is the message "files": all pipeline files and their directory.
type WatchFiles struct {
	Files     []spec.FileState `json:"files"`
	Directory spec.Directory   `json:"directory"`
}
