package spec

import (
	"fmt"
	"time"
)

// Cluster is an agent's view of the cluster that it is a member of.
type Cluster struct {
	Name string `json:"name,omitempty"`
	// Name of the agent that answers.
	Member string          `json:"member,omitempty"`
	State  MembershipState `json:"state"`
	// Reason why the agent runs no pipelines of the cluster.
	Message   string            `json:"message,omitempty"`
	Members   []ClusterMember   `json:"members"`
	Pipelines []ClusterPipeline `json:"pipelines"`
}

// MembershipState is the relation of an agent to a cluster.
type MembershipState string

// The states.
const (
	MembershipAlone        MembershipState = "alone"        // not a member of a cluster
	MembershipJoining      MembershipState = "joining"      // it has no session yet
	MembershipJoined       MembershipState = "joined"       // it takes pipelines
	MembershipDraining     MembershipState = "draining"     // it gives its pipelines away
	MembershipDrained      MembershipState = "drained"      // it has no pipeline and takes none
	MembershipDisconnected MembershipState = "disconnected" // its session ended, and it tries to open a new one
)

// Enum lists the states.
func (MembershipState) Enum() []string {
	return []string{"alone", "joining", "joined", "draining", "drained", "disconnected"}
}

// ClusterMember is an agent of a cluster.
type ClusterMember struct {
	Name    string            `json:"name"`
	Version string            `json:"version,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Share of the pipelines that the member takes, in proportion to the capacities of the others.
	Capacity float64 `json:"capacity"`
	// live, draining or gone.
	State string `json:"state"`
	// Start of the member, by its own clock.
	StartedAt time.Time `json:"startedAt"`
	// Seconds since the last renewal of its session that the agent that answers saw.
	SilentSeconds float64 `json:"silentSeconds"`
	// Number of pipelines that the member runs.
	Pipelines int `json:"pipelines"`
	// Address that its API listens on.
	Address string `json:"address,omitempty"`
	// Number of dead letters on its disk, of all pipelines. Those in the store of the cluster are not included.
	DeadLetters int64 `json:"deadLetters,omitempty"`
}

// ClusterPipeline is a pipeline of a cluster.
type ClusterPipeline struct {
	ID string `json:"id"`
	// Number of the instance, from 1; left out for a pipeline with a single instance.
	Instance int `json:"instance,omitempty"`
	Assignment
	// Number of the claim. It grows with each new owner.
	Epoch uint64 `json:"epoch,omitempty"`
	// Digest of the declaration that the owner runs.
	Digest string `json:"digest,omitempty"`
	// Seconds that the latest position has waited to be written to the claim. For a pipeline of another member, the
	// value is a few seconds old, and left out below one second.
	LagSeconds float64 `json:"lagSeconds,omitempty"`
	// The position of a strict pipeline has waited for too long: the pipeline writes no records until the claim
	// contains the position.
	Held bool `json:"held,omitempty"`
	// Dead letters on the disks of members, apart from those in the store of the cluster. The row of the first instance
	// has those of all instances.
	DeadLetters []MemberDeadLetters `json:"deadLetters,omitempty"`
	// Number of dead letters in the store of the cluster. The row of the first instance has those of all instances.
	//
	// Every member can list, replay and drop them.
	SharedDeadLetters int64 `json:"sharedDeadLetters,omitempty"`
	// Terms in the declaration of the agent that answers; left out when the agent has none.
	Terms *EffectiveTerms `json:"terms,omitempty"`
}

// EffectiveTerms are the terms of a pipeline as an agent applies them.
type EffectiveTerms struct {
	// strict, relaxed or local.
	Mode ClusterMode `json:"mode"`
	// Reason why the pipeline is local, or runs nowhere.
	Reason string `json:"reason,omitempty"`
	// Labels that a member must have.
	Labels map[string]string `json:"labels,omitempty"`
	// The agent that answers has these labels.
	Eligible bool `json:"eligible"`
	// State on the disk of the host, which does not move with the pipeline.
	OnHost []string `json:"onHost,omitempty"`
	// Declared number of instances, or all for one on each member that may run the pipeline. Left out for a single
	// instance.
	Instances Instances `json:"instances,omitempty"`
}

// RunningInstances are the instances of a pipeline that several members run at the same time.
type RunningInstances struct {
	// Declared number of instances, or all for one on each member that may run the pipeline.
	Declared Instances `json:"declared"`
	// Instances that members have claimed.
	Running []InstanceAssignment `json:"running"`
	// Reason why fewer instances run than declared.
	Message string `json:"message,omitempty"`
}

// InstanceAssignment is where an instance of a pipeline runs.
type InstanceAssignment struct {
	// Number of the instance, from 1.
	Instance int    `json:"instance"`
	Member   string `json:"member"`
	// Start of the ownership, by the clock of the member.
	Since time.Time `json:"since"`
	// Previous owner, which is gone.
	From string `json:"from,omitempty"`
}

// Count describes how many of the instances run.
func (i *RunningInstances) Count() string { return fmt.Sprintf("%d of %s", len(i.Running), i.Declared) }

// Assignment is the member of a cluster that a pipeline runs on.
type Assignment struct {
	// Owner; left out while there is none.
	Member string `json:"member,omitempty"`
	// Start of the ownership, by the clock of the member.
	Since *time.Time `json:"since,omitempty"`
	// Previous owner, which is gone.
	From string `json:"from,omitempty"`
	// Last event of the pipeline that the agent that answers observed, or the way in which the owner got it: Claimed,
	// TookOver, Released, Fenced, Differs, NewerFormat, RolledBack, Unplaced, Waiting, Disconnected, Reconnected,
	// Withdrawn, Retiring, Deleted or Outdated. Local: the pipeline runs on the agent that answers, without a claim.
	Reason string `json:"reason,omitempty"`
	// The declared version, if it failed and the last known good version runs in its place.
	//
	// It is nil when the running version is the declared one, or the declared one is about to be tried.
	Failed *FailedVersion `json:"failed,omitempty"`
}

// FailedVersion is a version of a pipeline that failed before it had proved itself, which no member of a cluster tries
// again by itself.
type FailedVersion struct {
	// Generation by the count of the member.
	Generation int64 `json:"generation"`
	// Member that the version failed on.
	Member string `json:"member"`
	// Start of the ownership, by the clock of the member.
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Text describes the version that failed, the member, and the error.
func (f *FailedVersion) Text() string {
	return fmt.Sprintf("generation %d failed on the member %s, and the last known good version runs in its place: %s",
		f.Generation, f.Member, f.Error)
}
