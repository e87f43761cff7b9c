package spec

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// DeadLetter is a refused record in the dead-letter store.
type DeadLetter struct {
	ID         int64           `json:"id" doc:"Ascending number, in the order of the refusals."`
	PipelineID string          `json:"pipelineId"`
	Time       time.Time       `json:"time" doc:"Time of the first refusal. It never decreases from one dead letter to the next."`
	LastTime   time.Time       `json:"lastTime" doc:"Time of the last refusal."`
	Times      int64           `json:"times" doc:"Number of refusals. A record that its source delivers again, or that is replayed, stays the same dead letter."`
	SourceID   string          `json:"sourceId"`
	Stage      DeadLetterStage `json:"stage"`
	RefusedBy  string          `json:"refusedBy" doc:"Qualified id of the processor or destination."`
	Generation int64           `json:"generation" doc:"Generation of the pipeline at the last refusal."`
	Digest     string          `json:"digest" doc:"Digest of that generation."`
	Key        string          `json:"key" doc:"Key of the record as text, shortened if it is long."`
	Error      string          `json:"error" doc:"Error of the last refusal, without secrets. Lists shorten it."`
	Stopped    bool            `json:"stopped" doc:"The record stopped the pipeline. The source delivers it again when the pipeline runs."`
	Edited     bool            `json:"edited"`
	Bytes      int64           `json:"bytes"`

	Refusals []Refusal       `json:"refusals,omitempty" doc:"The first and the last refusals, oldest first. Left out of lists."`
	Record   json.RawMessage `json:"record,omitempty" doc:"The record as it was refused, or as edited. Left out of lists. The position and raw data are text; other bytes are base64 with the prefix \"base64:\"."`
	Original json.RawMessage `json:"original,omitempty" doc:"The record as it was read, if the pipeline keeps it: keep-original in the dead-letter queue. Left out of lists."`
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
	Time       time.Time `json:"time"`
	By         string    `json:"by" doc:"Qualified id of the processor or destination."`
	Generation int64     `json:"generation"`
	Error      string    `json:"error"`
	Replay     bool      `json:"replay" doc:"The record was refused during a replay."`
}

// DeadLetterPage is a page of dead letters, newest first.
type DeadLetterPage struct {
	DeadLetters []DeadLetter        `json:"deadLetters"`
	Next        int64               `json:"next" doc:"Value of before for the next page; 0 after the last page. A page before the last one can be short or empty, because a search for rare dead letters takes several pages."`
	Totals      DeadLetterTotals    `json:"totals"`
	Replay      *Replay             `json:"replay,omitempty" doc:"Replay in progress, on any member of the cluster."`
	Elsewhere   []MemberDeadLetters `json:"elsewhere,omitempty" doc:"Dead letters on the disks of other members of the cluster. Only those members can list, replay and drop them."`
}

// MemberDeadLetters is the number of dead letters of a pipeline on the disk of a member of a cluster.
type MemberDeadLetters struct {
	Member  string `json:"member"`
	Address string `json:"address,omitempty" doc:"Address that its API listens on."`
	Count   int64  `json:"count" doc:"Number last reported by the member; a few seconds old while the member runs."`
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
	Dropped    uint64 `json:"dropped" doc:"Number of dead letters dropped because of the limits on their number and age."`
}

// DeadLetterFilter selects dead letters. An empty field matches all.
type DeadLetterFilter struct {
	Error string          `json:"error,omitempty" doc:"Text that the error contains. Case is ignored."`
	Key   string          `json:"key,omitempty" doc:"Text that the key contains."`
	Stage DeadLetterStage `json:"stage,omitempty"`
	Since time.Time       `json:"since,omitzero" doc:"Refused at this time or later."`
	Until time.Time       `json:"until,omitzero" doc:"Refused before this time."`
}

// ReplayRequest selects the dead letters to replay: by id, by a filter, or all.
type ReplayRequest struct {
	IDs    []int64           `json:"ids,omitempty"`
	Filter *DeadLetterFilter `json:"filter,omitempty"`
	All    bool              `json:"all,omitempty"`
	From   ReplayFrom        `json:"from,omitempty" doc:"Where the records enter. Left out: as refused, and when the processor is gone, at the same place among the present ones."`
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
	PipelineID string    `json:"pipelineId"`
	Running    bool      `json:"running"`
	Generation int64     `json:"generation" doc:"Generation of the pipeline that processes the dead letters."`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
	Read       int64     `json:"read" doc:"Dead letters that entered the pipeline."`
	Settled    int64     `json:"settled" doc:"Dead letters that were settled, and are deleted."`
	Refused    int64     `json:"refused" doc:"Dead letters that were refused again, and remain."`
	Skipped    int64     `json:"skipped" doc:"Dead letters that were not replayed, because they stopped the pipeline and their source delivers them again."`
	Error      string    `json:"error,omitempty" doc:"Reason why the replay ended early. Dead letters that are not settled are still there."`
	Cancelled  bool      `json:"cancelled,omitempty" doc:"The replay ends, or ended, early: a client cancelled it, or an error occurred."`
	Member     string    `json:"member,omitempty" doc:"Member of the cluster that runs or ran the replay; left out when it is the agent that answers. The counts of another member are a few seconds old."`
	Message    string    `json:"message,omitempty" doc:"Set when that member does not answer, with the consequence for the replay."`
}
