package spec

import (
	"fmt"
	"time"
)

// Cluster is an agent's view of the cluster that it is a member of.
type Cluster struct {
	Name      string            `json:"name,omitempty"`
	Member    string            `json:"member,omitempty" doc:"Name of the agent that answers."`
	State     MembershipState   `json:"state"`
	Message   string            `json:"message,omitempty" doc:"Why the agent runs no pipelines of the cluster."`
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
	Name          string            `json:"name"`
	Version       string            `json:"version,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Capacity      float64           `json:"capacity" doc:"How many pipelines it takes, in proportion to others."`
	State         string            `json:"state" doc:"live, draining or gone."`
	StartedAt     time.Time         `json:"startedAt" doc:"By its own clock."`
	SilentSeconds float64           `json:"silentSeconds" doc:"Since its session was renewed last, as the agent that answers saw it."`
	Pipelines     int               `json:"pipelines" doc:"That it runs."`
	Address       string            `json:"address,omitempty" doc:"That its API listens on."`
	DeadLetters   int64             `json:"deadLetters,omitempty" doc:"On its disk, of all pipelines; those in the store of the cluster are no member's."`
}

// ClusterPipeline is a pipeline of a cluster.
type ClusterPipeline struct {
	ID       string `json:"id"`
	Instance int    `json:"instance,omitempty" doc:"Which of several instances, from 1; none for a pipeline that has one."`
	Assignment
	Epoch       uint64              `json:"epoch,omitempty" doc:"Grows with each owner."`
	Digest      string              `json:"digest,omitempty" doc:"Of the declaration that the owner runs."`
	LagSeconds  float64             `json:"lagSeconds,omitempty" doc:"How long a position has waited to be in the claim. That of another member is what it said last, a few seconds ago, and none when it is less than a second."`
	Held        bool                `json:"held,omitempty" doc:"The position of a strict pipeline has waited for so long that it writes nothing more until it is in the claim."`
	DeadLetters []MemberDeadLetters `json:"deadLetters,omitempty" doc:"On the disks of the members, and not in the store of the cluster. Of several instances the first row has those of all."`
	// SharedDeadLetters counts the dead letters that every member can list, replay and drop.
	SharedDeadLetters int64           `json:"sharedDeadLetters,omitempty" doc:"Dead letters in the store of the cluster. Of several instances the first row has those of all."`
	Terms             *EffectiveTerms `json:"terms,omitempty" doc:"As the agent that answers has the pipeline declared; none when it has not."`
}

// EffectiveTerms are the terms of a pipeline as an agent applies them.
type EffectiveTerms struct {
	Mode     ClusterMode       `json:"mode" doc:"strict, relaxed or local."`
	Reason   string            `json:"reason,omitempty" doc:"Why it is local, or runs nowhere."`
	Labels   map[string]string `json:"labels,omitempty" doc:"That a member must have."`
	Eligible bool              `json:"eligible" doc:"Whether the agent that answers has them."`
	OnHost   []string          `json:"onHost,omitempty" doc:"What is on the disk of the host that runs it, and does not move with it."`
	// Instances is "" for a pipeline with a single instance.
	Instances Instances `json:"instances,omitempty" doc:"How many instances it is to have: a number, or all for one on each member that may run it; none for one."`
}

// RunningInstances are the instances of a pipeline that several members run at the same time.
type RunningInstances struct {
	Declared Instances            `json:"declared" doc:"How many there are to be: a number, or all for one on each member that may run it."`
	Running  []InstanceAssignment `json:"running" doc:"Those that members have."`
	Message  string               `json:"message,omitempty" doc:"Why there are fewer."`
}

// InstanceAssignment is where an instance of a pipeline runs.
type InstanceAssignment struct {
	Instance int       `json:"instance" doc:"From 1."`
	Member   string    `json:"member"`
	Since    time.Time `json:"since" doc:"By the clock of that member."`
	From     string    `json:"from,omitempty" doc:"Member that is gone and had it before."`
}

// Count describes how many of the instances run.
func (i *RunningInstances) Count() string { return fmt.Sprintf("%d of %s", len(i.Running), i.Declared) }

// Assignment is the member of a cluster that a pipeline runs on.
type Assignment struct {
	Member string     `json:"member,omitempty" doc:"That owns it; none while it has no owner."`
	Since  *time.Time `json:"since,omitempty" doc:"By the clock of that member."`
	From   string     `json:"from,omitempty" doc:"Member that is gone and had it before."`
	Reason string     `json:"reason,omitempty" doc:"What the agent that answers noticed of it last, or else how its owner got it: Claimed, TookOver, Released, Fenced, Differs, NewerFormat, RolledBack, Unplaced, Waiting, Disconnected, Reconnected, Withdrawn, Retiring, Deleted or Outdated; Local for one that runs on the agent that answers without a claim."`
	// Failed is nil when the running version is the declared one, or the declared one is about to be tried.
	Failed *FailedVersion `json:"failed,omitempty" doc:"The declared version, when it failed and the last known good one runs in its place."`
}

// FailedVersion is a version of a pipeline that failed before it had proved itself, which no member of a cluster tries
// again by itself.
type FailedVersion struct {
	Generation int64     `json:"generation" doc:"As the member counts."`
	Member     string    `json:"member" doc:"That it failed on."`
	At         time.Time `json:"at" doc:"By the clock of that member."`
	Error      string    `json:"error"`
}

// Text describes the version that failed, the member, and the error.
func (f *FailedVersion) Text() string {
	return fmt.Sprintf("generation %d failed on the member %s, and the last known good version runs in its place: %s",
		f.Generation, f.Member, f.Error)
}
