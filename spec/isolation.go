package spec

import (
	"fmt"
	"time"
)

// Isolation lets a destination fall behind or fail without holding up other destinations of the pipeline: its
// records wait in a separate log on the disk of the agent.
type Isolation struct {
	// Approximate limit of the log in bytes. Default: 1073741824.
	Bytes int64 `json:"bytes,omitempty"`
	// Time that the oldest record may wait before the log counts as full, such as 24h. Left out: any time.
	Age string `json:"age,omitempty"`
	// What happens to new records when the log is full: block (default) makes the pipeline wait, drop-oldest drops the
	// oldest records, and dead-letter refuses the new ones.
	Full IsolationFull `json:"full,omitempty"`
}

// IsolationFull is the policy for new records when the log of an isolated destination is full.
type IsolationFull string

// The policies.
const (
	IsolationBlocks      IsolationFull = "block"       // the pipeline waits
	IsolationDropsOldest IsolationFull = "drop-oldest" // the oldest records are dropped and counted
	IsolationRefuses     IsolationFull = "dead-letter" // new records are refused
)

// Enum lists the policies.
func (IsolationFull) Enum() []string {
	return []string{string(IsolationBlocks), string(IsolationDropsOldest), string(IsolationRefuses)}
}

// IsolatedLines is the reason why an isolated destination takes no lines.
const IsolatedLines = "its records wait in a log (isolate)"

const (
	// DefaultIsolationBytes is the limit of a log without one in the declaration.
	DefaultIsolationBytes = 1 << 30
	// LeastIsolationBytes is the lowest limit that can be declared: the log needs room for several files.
	LeastIsolationBytes = 1 << 20
)

// MaxAge returns Age as a duration, 0 for any time.
func (i *Isolation) MaxAge() time.Duration {
	d, _ := time.ParseDuration(i.Age) // the schema has checked it
	return d
}

// Normalize sets the limit if there is none, and leaves out the default policy. i may be nil.
func (i *Isolation) Normalize() {
	if i == nil {
		return
	}
	if i.Bytes == 0 {
		i.Bytes = DefaultIsolationBytes
	}
	if i.Full == IsolationBlocks {
		i.Full = ""
	}
}

// Policy returns the policy of a full log.
func (i *Isolation) Policy() IsolationFull {
	if i.Full == "" {
		return IsolationBlocks
	}
	return i.Full
}

// Clone returns a copy, nil of nil.
func (i *Isolation) Clone() *Isolation {
	if i == nil {
		return nil
	}
	c := *i
	return &c
}

// Equal reports whether i and o, which may be nil, have the same meaning.
func (i *Isolation) Equal(o *Isolation) bool {
	if i == nil || o == nil {
		return i == o
	}
	return *i == *o
}

// checkIsolation reports isolation that has no meaning. The agent checks what depends on its settings.
func checkIsolation(r *report, at string, p *Pipeline) {
	destinations := 0
	for i := range p.Connectors {
		if p.Connectors[i].Type == TypeDestination {
			destinations++
		}
	}
	for i := range p.Connectors {
		c, at := &p.Connectors[i], fmt.Sprintf("%s/connectors/%d/isolate", at, i)
		_, written := r.places[at]
		problem, severity := "", SeverityError
		switch {
		case r.failed(at):
		case c.Isolate == nil && written:
			problem = "isolate is empty: write isolate: {} for the default limits, or remove it"
		case c.Isolate == nil:
		case c.Type == TypeSource:
			problem = "a source cannot be isolated, since no records wait for it: remove isolate"
		case p.Instances.Several():
			problem = "the log of an isolated destination is on one host: remove isolate or instances"
		case destinations == 1:
			problem, severity = "it is the only destination of the pipeline, so it cannot hold up another one: "+
				"isolate only keeps its records on disk for a while", SeverityWarning
		}
		if problem != "" {
			r.add(at, severity, CodeInvalid, "connector %q: %s", c.ID, problem)
		}
	}
}

// Backlog is the state of an isolated destination: the records that wait in its log, and how it takes them.
type Backlog struct {
	// Records that the destination has not received.
	Records uint64 `json:"records"`
	// Bytes of these records on disk.
	Bytes int64 `json:"bytes"`
	// Age of the oldest record in seconds.
	Seconds float64 `json:"seconds"`
	// Limit of the log in bytes.
	Limit int64 `json:"limit"`
	// Set if the log has no room for new records: what happens to them, block, drop-oldest or dead-letter.
	Full IsolationFull `json:"full,omitempty"`
	// Records dropped since the log was opened, because it was full.
	Dropped uint64 `json:"dropped,omitempty"`
	// Current activity of the destination: opening, writing, retrying, or draining a log that is no longer declared.
	State string `json:"state"`
	// Why the destination failed, while it is retried.
	Error string `json:"error,omitempty"`
	// Time of the first of the failures in a row.
	Since *time.Time `json:"since,omitempty"`
	// Time of the next attempt.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// Description for people, without the error.
	Text string `json:"text"`
}

// The activities of an isolated destination.
const (
	BacklogOpening  = "opening"
	BacklogWriting  = "writing"
	BacklogRetrying = "retrying"
	BacklogDraining = "draining"
)
