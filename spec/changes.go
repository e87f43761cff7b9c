package spec

import (
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/pluginname"
)

// Changes is a change of desired state. The store applies it in one transaction, completely or not at all. An id may be
// in one of Declare and Withdraw only.
type Changes struct {
	Declare  []Declare
	Withdraw []Withdraw
	Files    []FileState // the new states of these files
	Forget   []string    // paths of deleted files whose pipelines are withdrawn or moved
	Events   []Event     // recorded with the change; the store sets At and ID when they are zero
}

// Empty reports whether applying c would change nothing.
func (c *Changes) Empty() bool {
	return len(c.Declare) == 0 && len(c.Withdraw) == 0 && len(c.Files) == 0 && len(c.Forget) == 0 && len(c.Events) == 0
}

// Declare is a declaration of Pipeline by Owner. It replaces an existing declaration of the id, including its owner,
// and ends a withdrawal. Generation grows only when the digest differs. A revision is recorded only when the pipeline
// differs at all or a withdrawal ends. An override ends when the digest or the declared status differs.
type Declare struct {
	Pipeline Pipeline
	Owner    Owner
	Origin   string // for Revision.Origin
}

// Withdraw says that the owner of pipeline ID no longer declares it.
type Withdraw struct {
	ID     string
	Origin string
	Purge  bool
}

// ConnectorState is the state of a connector that must outlive a run: whether it was ever started and with which
// settings, so that lifecycle events come exactly when due.
type ConnectorState struct {
	ID         string            `json:"id"` // qualified
	PipelineID string            `json:"pipelineId"`
	Type       ConnectorType     `json:"type"`
	Plugin     string            `json:"plugin"`             // of the last start, with references resolved
	Active     map[string]string `json:"active"`             // settings of the last good start, references unresolved
	Orphaned   time.Time         `json:"orphaned,omitzero"`  // when it was first seen undeclared
	Attempts   int               `json:"attempts,omitempty"` // failed attempts at LifecycleOnDeleted
	RetryAt    time.Time         `json:"retryAt,omitzero"`   // next attempt at LifecycleOnDeleted
	Error      string            `json:"error,omitempty"`    // of the last attempt
}

// Superseded returns the state of c after a plugin of another name has replaced its plugin. It is kept until
// LifecycleOnDeleted was called. Its id is the connector's with the name of the plugin, which no declared connector can
// have.
func (c ConnectorState) Superseded() *ConnectorState {
	c.ID = SupersededID(c.ID, c.Plugin)
	c.Orphaned, c.Attempts, c.RetryAt, c.Error = time.Time{}, 0, time.Time{}, ""
	return &c
}

// SupersededID returns the id of the state of a connector after its plugin was replaced.
func SupersededID(connectorID, plugin string) string {
	return connectorID + "@" + pluginname.Bare(plugin)
}

// ConnectorID returns the qualified id under which c was declared. superseded reports that another plugin has replaced
// its plugin since.
func (c *ConnectorState) ConnectorID() (id string, superseded bool) {
	id, _, superseded = strings.Cut(c.ID, "@")
	return id, superseded
}
