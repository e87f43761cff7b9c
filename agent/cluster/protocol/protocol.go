// Package protocol decides, on each of many agents, which of them runs a pipeline. It is a
// state machine: the time and all that happens are arguments, what is to be done is returned as
// commands, and nothing blocks. An agent feeds it from a key-value store that all agents share,
// and so does a simulation.
//
// Every agent has a session, a key that lives on only while it is renewed. Every pipeline has a
// claim, a key that lives for ever and says who runs it and how far it got. A claim changes by
// compare-and-swap only, so of two agents that believe to own a pipeline the next write of one
// fails, and that one stops. No decision rests on a read alone or on clocks of two machines:
// each agent measures with its own monotonic clock how long it has not seen a session change.
package protocol

import "time"

// Timing are the times of the protocol.
type Timing struct {
	TTL      time.Duration // of a session that is not renewed
	Renew    time.Duration // between renewals
	SelfStop time.Duration // after the last acknowledged renewal was sent: then claims are given up
	Retry    time.Duration // between tries of a write whose outcome is not known
	Answer   time.Duration // that a request is given to be answered
	Rank     time.Duration // that the second choice for a pipeline leaves to the first, and so on; of a take-over a quarter
	Claims   time.Duration // between two claims of one agent, so that many starts are no storm
	Balance  time.Duration // between pipelines handed over to a member that has too few
	Differ   time.Duration // that a claim of another declaration is left alone by those that have a newer one
	// Retire is how long the claim of a pipeline that a member has no declaration of any more is kept, and
	// Tombstone for how long it is remembered that it was deleted.
	Retire, Tombstone time.Duration
	// Overdue is how long a save may be under way before a strict pipeline writes nothing more until its outcome is known.
	Overdue time.Duration
}

// TimingOf returns the times of the protocol for sessions that live for ttl. 20 s survive the
// loss of the leader of a stream, which answers nothing for up to 8.2 s; so do 17 s.
func TimingOf(ttl time.Duration) Timing {
	return Timing{
		TTL: ttl, Renew: ttl / 5, SelfStop: ttl * 7 / 10, Retry: 200 * time.Millisecond, Answer: 2 * time.Second,
		Rank: time.Second, Claims: 50 * time.Millisecond, Balance: 10 * time.Second, Differ: 5 * time.Minute,
		Retire: 24 * time.Hour, Tombstone: 7 * 24 * time.Hour, Overdue: 200 * time.Millisecond,
	}
}

// brief is how long an outage of the store may be without a member that renewed its session in time stopping itself for it.
func (t *Timing) brief() time.Duration { return t.SelfStop - t.Renew/2 }

// settle is the time in which a member that lives renews its session once the store takes writes again: it does so each Renew,
// gives a try up that is not answered, and tries again.
func (t *Timing) settle() time.Duration { return t.Renew + t.Answer + 2*t.Retry }

// Entry is a key as the store has it. Value is nil when there is none.
type Entry struct {
	Key      string
	Value    []byte
	State    []byte // what a watch does not show: positions and what else goes from owner to owner
	Revision uint64 // of the write that made it; grows with every write to the store
}

// Result is what became of a write.
type Result int

// The results of writes.
const (
	Applied  Result = iota // it is what the store has
	Conflict               // another write came before it
	Busy                   // another write of the key is under way, which may be an earlier try of this one
	Unknown                // no answer: it may be applied, or be applied later
)

// Outcome is the answer to a write.
type Outcome struct {
	Result
	Revision uint64 // of Applied the write's, of Conflict the present one, 0 when it was not said
}

// Write is a command to replace a key if its revision is still Revision, 0 for a key that is
// not there.
type Write struct {
	Entry
	ID  uint64 // to be returned to Wrote
	TTL time.Duration
}

// Read is a command to read a key from the leader.
type Read struct {
	Key   string
	After time.Duration // to be waited before
}

// Start is a command to run a pipeline, which this agent owns, from the state of its claim, or to clean up
// after it.
type Start struct {
	Pipeline string
	Epoch    uint64 // the revision of the claim
	State    []byte // what was saved last, nil for nothing
	Retire   bool   // the pipeline is deleted: nothing runs, what its connectors hold is given up, and Retired is the answer
}

// Stop is a command to end the run of a pipeline, answered by Stopped. Unless it is Lost, what is
// outstanding may be settled and saved before.
type Stop struct {
	Pipeline string
	Epoch    uint64 // of Start
	Lost     bool   // another agent may own it
}

// Saved is the answer to Save, for the last state of this and of smaller tokens.
type Saved struct {
	Pipeline string
	Epoch    uint64 // of Start
	Token    uint64
	OK       bool // false: it was not saved and will not be
}

// Notice is something that people want to know of.
type Notice struct {
	Pipeline string // "" for the agent
	Reason   Reason
	Other    string // the other agent that it is about
}

// Reason is what a Notice is about.
type Reason string

// The reasons of notices.
const (
	Joined       Reason = "Joined"
	SessionLost  Reason = "SessionLost"
	NameTaken    Reason = "NameTaken"    // another agent has a session under this name
	Claimed      Reason = "Claimed"      // this agent owns the pipeline
	TookOver     Reason = "TookOver"     // as Claimed, from an agent that is gone
	Released     Reason = "Released"     // so that another can claim it
	Fenced       Reason = "Fenced"       // another agent took the claim
	RolledBack   Reason = "RolledBack"   // the store has older data than it acknowledged
	Differs      Reason = "Differs"      // the claim is of another declaration than this agent has
	NewerFormat  Reason = "NewerFormat"  // the claim was written by a newer version
	SelfStopped  Reason = "SelfStopped"  // the store was out of reach for too long
	Disconnected Reason = "Disconnected" // a relaxed pipeline goes on without acknowledging
	Reconnected  Reason = "Reconnected"  // after Disconnected: it is acknowledged again
	Unplaced     Reason = "Unplaced"     // no live member has the labels of the pipeline
	Waiting      Reason = "Waiting"      // every live member with the labels has another instance of the pipeline
	Withdrawn    Reason = "Withdrawn"    // this agent has no declaration of the pipeline any more
	Retiring     Reason = "Retiring"     // this agent cleans up after the pipeline
	Deleted      Reason = "Deleted"      // this agent deleted the claim and the positions
	Outdated     Reason = "Outdated"     // the pipeline was deleted, and this agent still has a declaration
)

// Command is a Write, Read, Start, Stop, Saved or Notice.
type Command any
