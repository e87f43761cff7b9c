package spec

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// DeadLetter is a refused record in the dead-letter store.
type DeadLetter struct {
	ID         int64           `json:"id" doc:"Ascends in the order in which records were refused."`
	PipelineID string          `json:"pipelineId"`
	Time       time.Time       `json:"time" doc:"When the record was refused first. It never runs backwards from one dead letter to the next."`
	LastTime   time.Time       `json:"lastTime" doc:"When it was refused last."`
	Times      int64           `json:"times" doc:"How often it was refused: a record that its source delivers again, or that is replayed, is the same dead letter."`
	SourceID   string          `json:"sourceId"`
	Stage      DeadLetterStage `json:"stage"`
	RefusedBy  string          `json:"refusedBy" doc:"Qualified id of the processor or destination."`
	Generation int64           `json:"generation" doc:"Of the version of the pipeline that refused it last."`
	Digest     string          `json:"digest" doc:"Of that version."`
	Key        string          `json:"key" doc:"Key of the record, as text; its beginning if it is long."`
	Error      string          `json:"error" doc:"The last one, without secrets; its beginning in lists if it is long."`
	Stopped    bool            `json:"stopped" doc:"It stopped the pipeline: the source delivers it again when that runs."`
	Edited     bool            `json:"edited"`
	Bytes      int64           `json:"bytes"`

	Refusals []Refusal       `json:"refusals,omitempty" doc:"The first and the last ones, oldest first; not in lists."`
	Record   json.RawMessage `json:"record,omitempty" doc:"The record as it was refused, or edited; not in lists. The position and raw data are text; bytes that are no text are base64 behind \"base64:\"."`
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
	Replay     bool      `json:"replay" doc:"It was being replayed."`
}

// DeadLetterPage is a page of dead letters, newest first.
type DeadLetterPage struct {
	DeadLetters []DeadLetter        `json:"deadLetters"`
	Next        int64               `json:"next" doc:"before of the next page, 0 behind the last one. A page may have fewer dead letters than asked for, or none, and have a next: finding rare ones takes several pages."`
	Totals      DeadLetterTotals    `json:"totals"`
	Replay      *Replay             `json:"replay,omitempty" doc:"That runs, on whichever member of the cluster."`
	Elsewhere   []MemberDeadLetters `json:"elsewhere,omitempty" doc:"Those that are on the disks of other members of the cluster, which list, replay and drop them."`
}

// MemberDeadLetters is the number of dead letters of a pipeline on the disk of a member of a cluster.
type MemberDeadLetters struct {
	Member  string `json:"member"`
	Address string `json:"address,omitempty" doc:"That its API listens on."`
	Count   int64  `json:"count" doc:"As it said last, which is a few seconds ago while it runs."`
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
	Dropped    uint64 `json:"dropped" doc:"Dropped because there were too many, or they were too old."`
}

// DeadLetterFilter selects dead letters. An empty field matches all.
type DeadLetterFilter struct {
	Error string          `json:"error,omitempty" doc:"Text that the error contains, in any case."`
	Key   string          `json:"key,omitempty" doc:"Text that the key contains."`
	Stage DeadLetterStage `json:"stage,omitempty"`
	Since time.Time       `json:"since,omitzero" doc:"Refused then or later."`
	Until time.Time       `json:"until,omitzero" doc:"Refused before."`
}

// ReplayRequest selects the dead letters to replay: by id, by a filter, or all.
type ReplayRequest struct {
	IDs    []int64           `json:"ids,omitempty"`
	Filter *DeadLetterFilter `json:"filter,omitempty"`
	All    bool              `json:"all,omitempty"`
}

// Replay is the progress of a replay of dead letters, or its result.
type Replay struct {
	PipelineID string    `json:"pipelineId"`
	Running    bool      `json:"running"`
	Generation int64     `json:"generation" doc:"Of the version of the pipeline that the dead letters pass."`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
	Read       int64     `json:"read" doc:"Dead letters that entered the pipeline."`
	Settled    int64     `json:"settled" doc:"Of those the ones that were settled, and are gone."`
	Refused    int64     `json:"refused" doc:"Of those the ones that were refused again, and came back."`
	Skipped    int64     `json:"skipped" doc:"Not replayed: they stopped the pipeline, and their source delivers them again."`
	Error      string    `json:"error,omitempty" doc:"Why it ended before all was replayed. What is not settled is still there."`
	Cancelled  bool      `json:"cancelled,omitempty" doc:"It is to end, or ended, before all was replayed: somebody asked for it, or see error."`
	Member     string    `json:"member,omitempty" doc:"Of the cluster, that runs it, or ran it; none when that is the agent that answers. How far it is is what that member said last, a few seconds ago."`
	Message    string    `json:"message,omitempty" doc:"That this member does not answer, and what becomes of the replay then."`
}
