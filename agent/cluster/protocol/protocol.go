// Package protocol decides, on each of many agents, which agent runs a pipeline. It is a state machine: the time and
// all events are arguments, the resulting commands are return values, and nothing blocks. An agent drives it from a
// key-value store that all agents share, and so does a simulation.
//
// Every agent has a session, a key that expires unless it is renewed. Every pipeline has a claim, a permanent key with
// the owner and the position. A claim changes only by compare-and-swap. So when two agents both believe that they own a
// pipeline, the next write of one agent fails, and that agent stops. No decision rests on a read alone or on the clocks
// of two machines: each agent measures with its own monotonic clock how long a session has not changed.
package protocol

import "time"

// Timing holds the times of the protocol.
type Timing struct {
	TTL      time.Duration // of a session that is not renewed
	Renew    time.Duration // between renewals
	SelfStop time.Duration // after the last acknowledged renewal was sent, the agent gives up its claims
	Retry    time.Duration // between attempts of a write with an unknown outcome
	Answer   time.Duration // timeout of a request
	Rank     time.Duration // delay of each further choice for a pipeline; a quarter for a take-over
	Claims   time.Duration // between two claims by an agent, to limit the number of simultaneous starts
	Balance  time.Duration // between hand-overs to a member that has too few pipelines
	Differ   time.Duration // for which members with a newer declaration leave a claim of another declaration alone
	// Retire is how long the claim of a pipeline is kept after a member lost the pipeline's declaration. Tombstone is
	// how long the deletion is remembered.
	Retire, Tombstone time.Duration
	// Overdue is how long a save may be in flight before a strict pipeline pauses its writes until the outcome is
	// known.
	Overdue time.Duration
}

// TimingOf returns the times of the protocol for sessions with this TTL. A TTL of 20 s survives the loss of the leader
// of a stream, during which there are no answers for up to 8.2 s; so does 17 s.
func TimingOf(ttl time.Duration) Timing {
	return Timing{
		TTL: ttl, Renew: ttl / 5, SelfStop: ttl * 7 / 10, Retry: 200 * time.Millisecond, Answer: 2 * time.Second,
		Rank: time.Second, Claims: 50 * time.Millisecond, Balance: 10 * time.Second, Differ: 5 * time.Minute,
		Retire: 24 * time.Hour, Tombstone: 7 * 24 * time.Hour, Overdue: 200 * time.Millisecond,
	}
}

// brief is the longest outage of the store in which no member that renewed its session in time stops itself.
func (t *Timing) brief() time.Duration { return t.SelfStop - t.Renew/2 }

// settle is the time in which a live member renews its session once the store accepts writes again: it renews every
// Renew, gives up an attempt without an answer, and tries again.
func (t *Timing) settle() time.Duration { return t.Renew + t.Answer + 2*t.Retry }

// Entry is a key in the store. Value is nil if the key does not exist.
type Entry struct {
	Key      string
	Value    []byte
	State    []byte // not shown by a watch: positions and other state that each owner passes to the next
	Revision uint64 // of the write that made it; increases with every write to the store
}

// Result is the result of a write.
type Result int

// The results of a write.
const (
	Applied  Result = iota // the entry is in the store
	Conflict               // another write came first
	Busy                   // another write of the key is in flight, possibly an earlier attempt of this one
	Unknown                // no answer: the write may be applied now, later, or never
)

// Outcome is the answer to a write.
type Outcome struct {
	Result
	Revision uint64 // for Applied, of the write; for Conflict, the present one, or 0 if not known
}

// Write is a command to replace a key if its revision still is Revision; 0 means that the key does not exist.
type Write struct {
	Entry
	ID  uint64 // passed back to Wrote
	TTL time.Duration
}

// Read is a command to read a key from the leader.
type Read struct {
	Key   string
	After time.Duration // delay before the read
}

// Start is a command to run a pipeline that this agent owns, from the state of its claim, or to clean up after the
// pipeline.
type Start struct {
	Pipeline string
	Epoch    uint64 // the revision of the claim
	State    []byte // last saved state, or nil
	Retire   bool   // the pipeline is deleted: release its connectors' resources instead, then call Retired
}

// Stop is a command to end the run of a pipeline. The reply is Stopped. Unless Lost is set, in-flight records may be
// settled and saved first.
type Stop struct {
	Pipeline string
	Epoch    uint64 // of Start
	Lost     bool   // another agent may own it
}

// Saved is the reply to Save, for the latest state with this token or a smaller one.
type Saved struct {
	Pipeline string
	Epoch    uint64 // of Start
	Token    uint64
	OK       bool // false: the state was not saved and never will be
}

// Notice is an event that people may want to know about.
type Notice struct {
	Pipeline string // "" for a notice about the agent
	Reason   Reason
	Other    string // the other agent involved
}

// Reason is the kind of a Notice.
type Reason string

// The reasons of notices.
const (
	Joined       Reason = "Joined"
	SessionLost  Reason = "SessionLost"
	NameTaken    Reason = "NameTaken"    // another agent has a session under this name
	Claimed      Reason = "Claimed"      // this agent owns the pipeline
	TookOver     Reason = "TookOver"     // as Claimed, from an agent that has ended
	Released     Reason = "Released"     // so that another agent can claim it
	Fenced       Reason = "Fenced"       // another agent took the claim
	RolledBack   Reason = "RolledBack"   // the store has older data than it acknowledged
	Differs      Reason = "Differs"      // the claim has another declaration than this agent
	NewerFormat  Reason = "NewerFormat"  // the claim was written by a newer version
	SelfStopped  Reason = "SelfStopped"  // the store was out of reach for too long
	Disconnected Reason = "Disconnected" // a relaxed pipeline keeps running without acknowledging
	Reconnected  Reason = "Reconnected"  // after Disconnected: it acknowledges again
	Unplaced     Reason = "Unplaced"     // no live member has the labels of the pipeline
	Waiting      Reason = "Waiting"      // every live member with the labels has another instance of the pipeline
	Withdrawn    Reason = "Withdrawn"    // this agent no longer has a declaration of the pipeline
	Retiring     Reason = "Retiring"     // this agent cleans up after the pipeline
	Deleted      Reason = "Deleted"      // this agent deleted the claim and the positions
	Outdated     Reason = "Outdated"     // the pipeline was deleted, and this agent still has a declaration
)

// Command is a Write, Read, Start, Stop, Saved or Notice.
type Command any
