package protocol

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// format is the format of values that this version writes, and the newest that it understands.
const format = 1

// Key prefixes.
const (
	SessionPrefix     = "s."
	ClaimPrefix       = "p."
	OverridePrefix    = "o."
	ReportPrefix      = "m."
	VersionsPrefix    = "v."
	DeclaredPrefix    = "d."
	DeadLettersPrefix = "q."
)

// Stamp identifies a write. It is unique.
type Stamp struct {
	Session string `json:"session"` // random, of the agent that wrote it
	Write   uint64 `json:"write"`   // counts up within the session
}

// Session is the value of an agent's session key.
type Session struct {
	Format   int               `json:"format"`
	Stamp    Stamp             `json:"stamp"`
	Agent    string            `json:"agent"`
	Version  string            `json:"version,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity float64           `json:"capacity,omitempty"` // relative to other agents; 0 means 1
	Draining bool              `json:"draining,omitempty"` // it releases its pipelines and claims none
	Started  time.Time         `json:"started,omitzero"`   // by its own clock, informational
}

// Claim is the value of a pipeline's claim key.
type Claim struct {
	Format   int       `json:"format"`
	Stamp    Stamp     `json:"stamp"`
	Pipeline string    `json:"pipeline"`
	Owner    string    `json:"owner,omitempty"`   // agent that runs it, or ""
	Session  string    `json:"session,omitempty"` // of the owner
	Digest   string    `json:"digest,omitempty"`  // of the declaration that the owner runs
	Epoch    uint64    `json:"epoch,omitempty"`   // revision of the claiming write; 0 in that write
	Since    time.Time `json:"since,omitzero"`    // by the owner's clock, informational
	From     string    `json:"from,omitempty"`    // previous owner that it was taken over from, or ""
	// Withdrawn is a member that no longer has a declaration of the pipeline. It is "" if another member has one.
	Withdrawn string `json:"withdrawn,omitempty"`
	Retiring  bool   `json:"retiring,omitempty"` // a clean-up instead of a run by the owner, or by a former owner
	Deleted   bool   `json:"deleted,omitempty"`  // the claim is a tombstone
}

// Unowned returns the claim of a pipeline that no member has run yet.
func Unowned(pipeline string) Claim { return Claim{Format: format, Pipeline: pipeline} }

// Newer reports whether a newer version of the agent wrote the claim. Such a claim must be left alone.
func (c *Claim) Newer() bool { return c.Format > format }

// Declaration is the declaration of a pipeline, as far as it matters to the cluster.
type Declaration struct {
	Digest  string            // of the declaration
	Labels  map[string]string // required of a member
	Relaxed bool              // keeps reading, without acknowledging, while the store is out of reach
	// Instances is the number of members that run the pipeline at the same time, each as an instance with its own
	// claim; 0 means 1. With Each, every eligible member runs one instance.
	Instances int
	Each      bool
	Purge     bool // for a former declaration: a person deleted the pipeline from the cluster, for all members
}

// Declared holds an agent's declarations of the cluster's pipelines.
type Declared struct {
	Run  map[string]Declaration // should run
	Idle map[string]bool        // should not run
	Gone map[string]Declaration // were declared before
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

// has reports whether labels contains all required ones.
func has(labels, required map[string]string) bool {
	for k, v := range required {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
