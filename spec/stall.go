package spec

import "time"

// Stall is the reason why a pipeline that should run delivers nothing. It is kept across restarts of the run and of the
// agent until a record is delivered again, or the running declaration changes.
type Stall struct {
	Reason     string    `json:"reason"`               // CamelCase word; stable
	Stage      string    `json:"stage,omitempty"`      // qualified id of the stage to blame; "" without a single one
	Message    string    `json:"message"`              // for people; names the stage
	Since      time.Time `json:"since"`                // last delivery, begin of the wait, or first failure
	Failed     bool      `json:"failed,omitempty"`     // a run ended because of it; only a run that delivers ends it
	Generation int64     `json:"generation,omitempty"` // of the stalled version
	Restart    time.Time `json:"-"`                    // time at which a person asked for a restart; zero for never
}

// State describes a running pipeline with the stall, for people.
func (s *Stall) State() string {
	if s.Silent() {
		return "silent"
	}
	return "not delivering"
}

// The states of a stage that delivers nothing, for StageKind.Reason.
const (
	StallRefuses  = "Refuses"  // it refuses records and accepts none
	StallRetrying = "Retrying" // it reports errors and tries again
	StallStuck    = "Stuck"    // it does not respond
	StallFailed   = "Failed"   // it ended the run
	// of a source: no source of the pipeline has read a record for longer than its max-silence
	StallSilent = "Silent"
)

// Silent reports whether the reason is that no source has read a record for longer than max-silence. No records that
// were read are waiting then.
func (s *Stall) Silent() bool { return s != nil && s.Reason == StageSource.Reason(StallSilent) }

// The reasons that blame no stage.
const (
	StallPipeline = "PipelineFailed"    // a run ended for a reason outside its stages
	StallStart    = "StartStuck"        // its plugins do not come up
	StallCluster  = "WaitingForCluster" // no member of the cluster runs it, or this one may not write
)

// NotAgain ends the error of a degraded pipeline: it says that time alone does not restart the pipeline, and what does.
func NotAgain(id string) string {
	return "; the pipeline starts again when it or a plugin changes, or with 'conduit pipelines start " + id + "'"
}

// Failure returns the stall of a pipeline whose run ended with an error at now. before is its previous stall or nil.
// stage is the qualified id of the failed stage of this kind, or "". refused reports whether the stage refused a
// record.
func Failure(before *Stall, stage string, kind StageKind, refused bool, message string, now time.Time) *Stall {
	s := &Stall{Reason: StallPipeline, Stage: stage, Message: message, Since: now, Failed: true}
	if before != nil && !before.Since.IsZero() {
		s.Since = before.Since
	}
	if stage != "" {
		done := StallFailed
		if refused {
			done = StallRefuses
		}
		s.Reason = kind.Reason(done)
	}
	return s
}

// Same reports whether s and o are equal except for their messages, which change with every attempt.
func (s *Stall) Same(o *Stall) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Reason == o.Reason && s.Stage == o.Stage && s.Since.Equal(o.Since) && s.Failed == o.Failed &&
		s.Generation == o.Generation
}

func (o observation) delivering() Condition {
	c := Condition{Type: ConditionDelivering, Status: ConditionFalse, ObservedGeneration: o.seen()}
	switch stall := o.s.Stall; {
	case stall != nil:
		c.Reason, c.Message, c.LastTransitionTime = stall.Reason, stall.Message, stall.Since
	case o.s.Phase == PhaseRunning:
		c.Status, c.Reason, c.Message = ConditionTrue, "Delivering", "records are delivered"
	default:
		c.Reason, c.Message = phaseReasons[o.s.Phase], "the pipeline is "+string(o.s.Phase)
	}
	return c
}
