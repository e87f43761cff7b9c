package rest

import (
	"encoding/json"

	"github.com/conduit-agent/conduit/spec"
)

// WatchSession is the message "session": what the client may do.
type WatchSession struct {
	Role string `json:"role" doc:"admin, or read for a client that may change nothing."`
}

// WatchStatuses is the message "statuses": the pipelines whose status is another.
type WatchStatuses struct {
	All      bool              `json:"all,omitempty" doc:"These are all pipelines there are."`
	Statuses []json.RawMessage `json:"statuses" doc:"As /v1/pipelines/{id}/status tells them."`
	Gone     []string          `json:"gone" doc:"Ids of pipelines that are no more."`
}

// WatchFiles is the message "files": all pipeline files and their directory.
type WatchFiles struct {
	Files     []spec.FileState `json:"files"`
	Directory spec.Directory   `json:"directory"`
}
