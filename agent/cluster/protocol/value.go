package protocol

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// format is that of the values that this version writes, and the newest that it understands.
const format = 1

// Prefixes of keys.
const (
	SessionPrefix  = "s."
	ClaimPrefix    = "p."
	OverridePrefix = "o."
	ReportPrefix   = "m."
	VersionsPrefix = "v."
	DeclaredPrefix = "d."
	LettersPrefix  = "q."
)

// Stamp names a write: no two have the same.
type Stamp struct {
	Session string `json:"session"` // random, of the agent that wrote it
	Write   uint64 `json:"write"`   // counts up within the session
}

// Session is the value of the key of an agent.
type Session struct {
	Format   int               `json:"format"`
	Stamp    Stamp             `json:"stamp"`
	Agent    string            `json:"agent"`
	Version  string            `json:"version,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity float64           `json:"capacity,omitempty"` // relative to that of other agents; 0 is 1
	Draining bool              `json:"draining,omitempty"` // it gives its pipelines away and takes none
	Started  time.Time         `json:"started,omitzero"`   // by its own clock, for people
}

// Claim is the value of the key of a pipeline.
type Claim struct {
	Format   int       `json:"format"`
	Stamp    Stamp     `json:"stamp"`
	Pipeline string    `json:"pipeline"`
	Owner    string    `json:"owner,omitempty"`   // agent that runs it, "" for none
	Session  string    `json:"session,omitempty"` // of the owner
	Digest   string    `json:"digest,omitempty"`  // of the declaration that the owner runs
	Epoch    uint64    `json:"epoch,omitempty"`   // the revision of the write by which the owner got it; 0 in that write
	Since    time.Time `json:"since,omitzero"`    // by the owner's clock, for people
	From     string    `json:"from,omitempty"`    // agent that it was taken over from, "" for none
	// Withdrawn is a member that has no declaration of the pipeline any more; "" when another one has.
	Withdrawn string `json:"withdrawn,omitempty"`
	Retiring  bool   `json:"retiring,omitempty"` // the owner does not run the pipeline, but cleans up after it; or one has
	Deleted   bool   `json:"deleted,omitempty"`  // the claim is a tombstone
}

// Unowned returns the claim of a pipeline that no member ever ran.
func Unowned(pipeline string) Claim { return Claim{Format: format, Pipeline: pipeline} }

// Newer reports whether a newer version wrote the claim, which is to be left alone.
func (c *Claim) Newer() bool { return c.Format > format }

// Wanted is a pipeline that this agent would run.
type Wanted struct {
	Digest  string            // of the declaration
	Labels  map[string]string // that a member must have
	Relaxed bool              // goes on reading, without acknowledging, while the store is out of reach
	// Instances is how many members run it at the same time, each an instance with a claim of its own; 0 is 1. With
	// Each it is one on each member that may.
	Instances int
	Each      bool
	Purge     bool // of one that was declared once: a person deleted it from the cluster, for all members
}

// Declared is what an agent knows of the declarations of the cluster's pipelines.
type Declared struct {
	Wanted map[string]Wanted // would run
	Idle   map[string]bool   // are not to run
	Gone   map[string]Wanted // were declared once
}

func decode[T any](value []byte) (t T, ok bool) {
	return t, value != nil && json.Unmarshal(value, &t) == nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and bytes
	}
	return b
}

// has reports whether labels has all of those that are required.
func has(labels, required map[string]string) bool {
	for k, v := range required {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
