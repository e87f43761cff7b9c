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
	Message   string            `json:"message,omitempty" doc:"Reason why the agent runs no pipelines of the cluster."`
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
	Capacity      float64           `json:"capacity" doc:"Share of the pipelines that the member takes, in proportion to the capacities of the others."`
	State         string            `json:"state" doc:"live, draining or gone."`
	StartedAt     time.Time         `json:"startedAt" doc:"Start of the member, by its own clock."`
	SilentSeconds float64           `json:"silentSeconds" doc:"Seconds since the last renewal of its session that the agent that answers saw."`
	Pipelines     int               `json:"pipelines" doc:"Number of pipelines that the member runs."`
	Address       string            `json:"address,omitempty" doc:"Address that its API listens on."`
	DeadLetters   int64             `json:"deadLetters,omitempty" doc:"Number of dead letters on its disk, of all pipelines. Those in the store of the cluster are not included."`
}

// ClusterPipeline is a pipeline of a cluster.
type ClusterPipeline struct {
	ID       string `json:"id"`
	Instance int    `json:"instance,omitempty" doc:"Number of the instance, from 1; left out for a pipeline with a single instance."`
	Assignment
	Epoch       uint64              `json:"epoch,omitempty" doc:"Number of the claim. It grows with each new owner."`
	Digest      string              `json:"digest,omitempty" doc:"Digest of the declaration that the owner runs."`
	LagSeconds  float64             `json:"lagSeconds,omitempty" doc:"Seconds that the latest position has waited to be written to the claim. For a pipeline of another member, the value is a few seconds old, and left out below one second."`
	Held        bool                `json:"held,omitempty" doc:"The position of a strict pipeline has waited for too long: the pipeline writes no records until the claim contains the position."`
	DeadLetters []MemberDeadLetters `json:"deadLetters,omitempty" doc:"Dead letters on the disks of members, apart from those in the store of the cluster. The row of the first instance has those of all instances."`
	// SharedDeadLetters counts the dead letters that every member can list, replay and drop.
	SharedDeadLetters int64           `json:"sharedDeadLetters,omitempty" doc:"Number of dead letters in the store of the cluster. The row of the first instance has those of all instances."`
	Terms             *EffectiveTerms `json:"terms,omitempty" doc:"Terms in the declaration of the agent that answers; left out when the agent has none."`
}

// EffectiveTerms are the terms of a pipeline as an agent applies them.
type EffectiveTerms struct {
	Mode     ClusterMode       `json:"mode" doc:"strict, relaxed or local."`
	Reason   string            `json:"reason,omitempty" doc:"Reason why the pipeline is local, or runs nowhere."`
	Labels   map[string]string `json:"labels,omitempty" doc:"Labels that a member must have."`
	Eligible bool              `json:"eligible" doc:"The agent that answers has these labels."`
	OnHost   []string          `json:"onHost,omitempty" doc:"State on the disk of the host, which does not move with the pipeline."`
	// Instances is "" for a pipeline with a single instance.
	Instances Instances `json:"instances,omitempty" doc:"Declared number of instances, or all for one on each member that may run the pipeline. Left out for a single instance."`
}

// RunningInstances are the instances of a pipeline that several members run at the same time.
type RunningInstances struct {
	Declared Instances            `json:"declared" doc:"Declared number of instances, or all for one on each member that may run the pipeline."`
	Running  []InstanceAssignment `json:"running" doc:"Instances that members have claimed."`
	Message  string               `json:"message,omitempty" doc:"Reason why fewer instances run than declared."`
}

// InstanceAssignment is where an instance of a pipeline runs.
type InstanceAssignment struct {
	Instance int       `json:"instance" doc:"Number of the instance, from 1."`
	Member   string    `json:"member"`
	Since    time.Time `json:"since" doc:"Start of the ownership, by the clock of the member."`
	From     string    `json:"from,omitempty" doc:"Previous owner, which is gone."`
}

// Count describes how many of the instances run.
func (i *RunningInstances) Count() string { return fmt.Sprintf("%d of %s", len(i.Running), i.Declared) }

// Assignment is the member of a cluster that a pipeline runs on.
type Assignment struct {
	Member string     `json:"member,omitempty" doc:"Owner; left out while there is none."`
	Since  *time.Time `json:"since,omitempty" doc:"Start of the ownership, by the clock of the member."`
	From   string     `json:"from,omitempty" doc:"Previous owner, which is gone."`
	Reason string     `json:"reason,omitempty" doc:"Last event of the pipeline that the agent that answers observed, or the way in which the owner got it: Claimed, TookOver, Released, Fenced, Differs, NewerFormat, RolledBack, Unplaced, Waiting, Disconnected, Reconnected, Withdrawn, Retiring, Deleted or Outdated. Local: the pipeline runs on the agent that answers, without a claim."`
	// Failed is nil when the running version is the declared one, or the declared one is about to be tried.
	Failed *FailedVersion `json:"failed,omitempty" doc:"The declared version, if it failed and the last known good version runs in its place."`
}

// FailedVersion is a version of a pipeline that failed before it had proved itself, which no member of a cluster tries
// again by itself.
type FailedVersion struct {
	Generation int64     `json:"generation" doc:"Generation by the count of the member."`
	Member     string    `json:"member" doc:"Member that the version failed on."`
	At         time.Time `json:"at" doc:"Start of the ownership, by the clock of the member."`
	Error      string    `json:"error"`
}

// Text describes the version that failed, the member, and the error.
func (f *FailedVersion) Text() string {
	return fmt.Sprintf("generation %d failed on the member %s, and the last known good version runs in its place: %s",
		f.Generation, f.Member, f.Error)
}
