// Package notification sends notifications to a webhook or a command: that a pipeline fails, is silent or recovered,
// or that there is a problem with its file. It follows the events of the agent, and no pipeline waits for it.
package notification

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of a notification.
type Kind string

// The kinds, in the order of the documentation.
const (
	Degraded Kind = "degraded" // a pipeline failed and is not retried until something changes
	Failing  Kind = "failing"  // a pipeline has failed for failingAfter, and is retried
	// the new version of a pipeline failed, and the last known good one was kept or restored by a rollback
	UpdateFailed Kind = "update-failed"
	// a pipeline runs and delivers nothing: a stage retries, refuses or does not respond
	NotDelivering  Kind = "not-delivering"
	Silent         Kind = "silent"          // no source of a pipeline has read a record for longer than its max-silence
	IsolationFull  Kind = "isolation-full"  // the log of an isolated destination is full
	Recovered      Kind = "recovered"       // a pipeline works again after a notification of another kind
	FileProblem    Kind = "file-problem"    // a pipeline file has a problem
	FileAccepted   Kind = "file-accepted"   // a pipeline file is in order again
	FilesMissing   Kind = "files-missing"   // the directory of the pipeline files is gone, unreadable or empty
	FilesAvailable Kind = "files-available" // the directory of the pipeline files is followed again
	Cluster        Kind = "cluster"         // this agent lost its place in a cluster
	Test           Kind = "test"            // a person asked for a notification
)

// Kinds returns the kinds that users can select.
func Kinds() []Kind {
	return []Kind{Degraded, Failing, UpdateFailed, NotDelivering, Silent, IsolationFull, Recovered, FileProblem,
		FileAccepted, FilesMissing, FilesAvailable, Cluster}
}

// ParseKinds parses comma-separated kinds; an empty list means all.
func ParseKinds(text string) ([]Kind, error) {
	var kinds []Kind
	for part := range strings.SplitSeq(text, ",") {
		kind := Kind(strings.TrimSpace(part))
		if kind == "" {
			continue
		}
		if !slices.Contains(Kinds(), kind) {
			return nil, fmt.Errorf("%q is none of %s", kind, join(Kinds()))
		}
		kinds = append(kinds, kind)
	}
	if kinds == nil {
		kinds = Kinds()
	}
	return kinds, nil
}

func join(kinds []Kind) string {
	var words []string
	for _, k := range kinds {
		words = append(words, string(k))
	}
	return strings.Join(words, ", ")
}

// Notification is the content of a notification, in JSON.
type Notification struct {
	ID       string    `json:"id"` // unique, and the same in every attempt
	At       time.Time `json:"at"` // when it happened
	Agent    string    `json:"agent"`
	Kind     Kind      `json:"kind"`
	Severity string    `json:"severity"` // "warning" or "normal"
	Pipeline string    `json:"pipeline,omitempty"`
	File     string    `json:"file,omitempty"`
	Message  string    `json:"message"`
	Text     string    `json:"text"` // the whole notification in one line, for people
	// number of the same kind and pipeline that were not sent since the last one
	Suppressed int `json:"suppressed,omitempty"`
}

// subject identifies the subject of a notification: a pipeline, a file, or the agent.
func (n *Notification) subject() string {
	switch {
	case n.Pipeline != "":
		return "pipeline " + n.Pipeline
	case n.File != "":
		return "file " + n.File
	}
	return "agent"
}

// describe fills in the fields that follow from the others.
func (n *Notification) describe(agent string) {
	n.Agent, n.Severity = agent, "warning"
	if slices.Contains([]Kind{Recovered, FileAccepted, FilesAvailable, Test}, n.Kind) {
		n.Severity = "normal"
	}
	about := ""
	if n.Pipeline != "" || n.File != "" {
		about = cmp.Or(n.Pipeline, n.File) + " "
	}
	n.Text = fmt.Sprintf("conduit on %s: %s%s: %s", agent, about, n.Kind, n.Message)
	if n.Suppressed > 0 {
		n.Text += fmt.Sprintf(" (and %d more of these before)", n.Suppressed)
	}
}
