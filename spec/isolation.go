package spec

import (
	"fmt"
	"time"
)

// Isolation lets a destination fall behind or fail without holding up the other destinations of its pipeline: its
// records wait in a log of their own on the disk of the agent.
type Isolation struct {
	// Bytes is the approximate limit of the log; 0 after parsing never happens, since Normalize sets the default.
	Bytes int64 `json:"bytes,omitempty"`
	// Age is how long the oldest record may wait before the log counts as full, a duration such as 24h; empty: any time.
	Age string `json:"age,omitempty"`
	// Full is what happens to records for which the log has no room; empty: IsolationBlocks.
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

// normalize sets the limit if there is none, and leaves out the default policy.
func (i *Isolation) normalize() {
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

// String describes the limits of the log for people.
func (i *Isolation) String() string {
	age := ""
	if i.Age != "" {
		age = " or a record waits longer than " + i.Age
	}
	then := map[IsolationFull]string{IsolationBlocks: "the pipeline waits", IsolationDropsOldest: "the oldest records are dropped",
		IsolationRefuses: "new records go to the dead-letter queue"}[i.Policy()]
	return fmt.Sprintf("its records wait in a log of its own on this host; beyond %d bytes%s %s", i.Bytes, age, then)
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
		switch {
		case c.Isolate == nil || r.failed(at):
		case c.Type == TypeSource:
			r.add(at, SeverityError, CodeInvalid, "source %q cannot be isolated: only a destination has records that "+
				"wait for it; remove isolate", c.ID)
		case p.Instances.Several():
			r.add(at, SeverityError, CodeInvalid, "destination %q cannot be isolated in a pipeline with several "+
				"instances: each would have a log of its own; remove isolate or instances", c.ID)
		case destinations == 1:
			r.add(at, SeverityWarning, CodeInvalid, "destination %q is the only one of its pipeline: isolate protects "+
				"no other destination, it only buffers records on disk", c.ID)
		}
	}
}

// Backlog is the state of an isolated destination: the records that wait in its log, and how it takes them.
type Backlog struct {
	// Records that the destination has not received.
	Records uint64 `json:"records"`
	// Bytes of these records on disk.
	Bytes int64 `json:"bytes"`
	// Age in seconds of the oldest of them.
	Seconds float64 `json:"seconds"`
	// Limit of the log in bytes.
	Limit int64 `json:"limit"`
	// Set if the log has no room for new records: what happens to them, block, drop-oldest or dead-letter.
	Full IsolationFull `json:"full,omitempty"`
	// Records dropped since the agent started, because the log was full.
	Dropped uint64 `json:"dropped,omitempty"`
	// Current activity of the destination: opening, writing, retrying, or draining a log that is no longer declared.
	State string `json:"state"`
	// Why the destination failed, while it is retried.
	Error string `json:"error,omitempty"`
	// Time of the first of the failures in a row.
	Since *time.Time `json:"since,omitempty"`
	// Time of the next attempt.
	RetryAt *time.Time `json:"retryAt,omitempty"`
}

// The activities of an isolated destination.
const (
	BacklogOpening  = "opening"
	BacklogWriting  = "writing"
	BacklogRetrying = "retrying"
	BacklogDraining = "draining"
)
