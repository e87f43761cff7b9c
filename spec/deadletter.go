package spec

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// DeadLetter is a refused record in the dead-letter store.
type DeadLetter struct {
	// Ascending number, in the order of the refusals.
	ID         int64  `json:"id"`
	PipelineID string `json:"pipelineId"`
	// Time of the first refusal. It never decreases from one dead letter to the next.
	Time time.Time `json:"time"`
	// Time of the last refusal.
	LastTime time.Time `json:"lastTime"`
	// Number of refusals. A record that its source delivers again, or that is replayed, stays the same dead letter.
	Times    int64           `json:"times"`
	SourceID string          `json:"sourceId"`
	Stage    DeadLetterStage `json:"stage"`
	// Qualified id of the processor or destination.
	RefusedBy string `json:"refusedBy"`
	// Generation of the pipeline at the last refusal.
	Generation int64 `json:"generation"`
	// Digest of that generation.
	Digest string `json:"digest"`
	// Key of the record as text, shortened if it is long.
	Key string `json:"key"`
	// Error of the last refusal, without secrets. Lists shorten it.
	Error string `json:"error"`
	// The record stopped the pipeline. The source delivers it again when the pipeline runs.
	Stopped bool  `json:"stopped"`
	Edited  bool  `json:"edited"`
	Bytes   int64 `json:"bytes"`
	// Beginning of the payload as one line of text. Only in lists, on request, unless the dead letter is large.
	Excerpt string `json:"excerpt,omitempty"`

	// The first and the last refusals, oldest first. Left out of lists.
	Refusals []Refusal `json:"refusals,omitempty"`
	// The record as it was refused, or as edited. Left out of lists. The position and raw data are text; other bytes
	// are base64 with the prefix "base64:".
	Record json.RawMessage `json:"record,omitempty"`
	// The record as it was read, if the pipeline keeps it: keep-original in the dead-letter queue. Left out of lists.
	Original json.RawMessage `json:"original,omitempty"`
}

// DeadLetterStage is where in a pipeline a record was refused.
type DeadLetterStage string

// The stages.
const (
	RefusedBySourceProcessor      DeadLetterStage = "source-processor"
	RefusedByPipelineProcessor    DeadLetterStage = "pipeline-processor"
	RefusedByDestinationProcessor DeadLetterStage = "destination-processor"
	RefusedByDestination          DeadLetterStage = "destination"
)

// Refusal is one refusal of a record.
type Refusal struct {
	Time time.Time `json:"time"`
	// Qualified id of the processor or destination.
	By         string `json:"by"`
	Generation int64  `json:"generation"`
	Error      string `json:"error"`
	// The record was refused during a replay.
	Replay bool `json:"replay"`
}

// DeadLetterPage is a page of dead letters, newest first.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"deadLetters"`
	// Value of before for the next page; 0 after the last page. A page before the last one can be short or empty,
	// because a search for rare dead letters takes several pages.
	Next   int64            `json:"next"`
	Totals DeadLetterTotals `json:"totals"`
	// Replay in progress, on any member of the cluster.
	Replay *Replay `json:"replay,omitempty"`
	// Dead letters on the disks of other members of the cluster. Only those members can list, replay and drop them.
	Elsewhere []MemberDeadLetters `json:"elsewhere,omitempty"`
}

// MemberDeadLetters is the number of dead letters of a pipeline on the disk of a member of a cluster.
type MemberDeadLetters struct {
	Member string `json:"member"`
	// Address that its API listens on.
	Address string `json:"address,omitempty"`
	// Number last reported by the member; a few seconds old while the member runs.
	Count int64 `json:"count"`
}

// DeadLettersText lists the members with their numbers of dead letters: m1 at 10.0.0.1:8080 has 3.
func DeadLettersText(all []MemberDeadLetters) string {
	texts := make([]string, len(all))
	for i, m := range all {
		texts[i] = m.Member
		if m.Address != "" {
			texts[i] += " at " + m.Address
		}
		texts[i] += " has " + strconv.FormatInt(m.Count, 10)
	}
	return strings.Join(texts, ", ")
}

// DeadLetterTotals summarizes the dead letters of a pipeline.
type DeadLetterTotals struct {
	PipelineID string `json:"pipelineId"`
	Count      int64  `json:"count"`
	Bytes      int64  `json:"bytes"`
	// Number of dead letters dropped because of the limits on their number and age.
	Dropped uint64 `json:"dropped"`
}

// DeadLetterFilter selects dead letters. An empty field matches all.
type DeadLetterFilter struct {
	// Text that the error contains. Case is ignored.
	Error string `json:"error,omitempty"`
	// Text that the key contains.
	Key   string          `json:"key,omitempty"`
	Stage DeadLetterStage `json:"stage,omitempty"`
	// Refused at this time or later.
	Since time.Time `json:"since,omitzero"`
	// Refused before this time.
	Until time.Time `json:"until,omitzero"`
}

// ReplayRequest selects the dead letters to replay: by id, by a filter, or all.
type ReplayRequest struct {
	IDs    []int64           `json:"ids,omitempty"`
	Filter *DeadLetterFilter `json:"filter,omitempty"`
	All    bool              `json:"all,omitempty"`
	// Where the records enter. Left out: as refused, and when the processor is gone, at the same place among the
	// present ones.
	From ReplayFrom `json:"from,omitempty"`
}

// ReplayFrom is where replayed records enter their pipeline.
type ReplayFrom string

// The places. The empty one is like ReplayFromRefused, but takes the place of a missing processor by its number.
const (
	ReplayFromRefused ReplayFrom = "refused" // at the processor or destination with the id of the one that refused it
	ReplayFromFirst   ReplayFrom = "first"   // as it was read, at the first processor
)

// Enum lists the places.
func (ReplayFrom) Enum() []string {
	return []string{string(ReplayFromRefused), string(ReplayFromFirst)}
}

// Replay is the progress of a replay of dead letters, or its result.
type Replay struct {
	PipelineID string `json:"pipelineId"`
	Running    bool   `json:"running"`
	// Generation of the pipeline that processes the dead letters.
	Generation int64     `json:"generation"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
	// Dead letters that entered the pipeline.
	Read int64 `json:"read"`
	// Dead letters that were settled, and are deleted.
	Settled int64 `json:"settled"`
	// Dead letters that were refused again, and remain.
	Refused int64 `json:"refused"`
	// Dead letters that were not replayed, because they stopped the pipeline and their source delivers them again.
	Skipped int64 `json:"skipped"`
	// Reason why the replay ended early. Dead letters that are not settled are still there.
	Error string `json:"error,omitempty"`
	// The replay ends, or ended, early: a client cancelled it, or an error occurred.
	Cancelled bool `json:"cancelled,omitempty"`
	// Member of the cluster that runs or ran the replay; left out when it is the agent that answers. The counts of
	// another member are a few seconds old.
	Member string `json:"member,omitempty"`
	// Set when that member does not respond, with the consequence for the replay.
	Message string `json:"message,omitempty"`
}
