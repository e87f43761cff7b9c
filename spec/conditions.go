package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Condition is a statement about a pipeline that is true or false.
type Condition struct {
	Type               ConditionType   `json:"type"`
	Status             ConditionStatus `json:"status"`
	Reason             string          `json:"reason"`  // CamelCase word; stable
	Message            string          `json:"message"` // for people; may be empty
	File               string          `json:"file,omitempty"`
	Line               int             `json:"line,omitempty"`
	Column             int             `json:"column,omitempty"`
	ObservedGeneration int64           `json:"observedGeneration,omitempty"` // the generation it refers to
	LastTransitionTime time.Time       `json:"lastTransitionTime,omitzero"`  // of the status; zero if unknown
}

// ConditionType is the aspect of a pipeline that a condition describes.
type ConditionType string

// The condition types.
const (
	ConditionValid   ConditionType = "Valid"   // the files that declare it have no errors
	ConditionApplied ConditionType = "Applied" // it runs or is stopped, as declared or requested
	// the declared generation runs with its current references, has passed its probation, and delivers
	ConditionReady ConditionType = "Ready"
	// it runs and delivers its records; State.Stall gives the reason if not
	ConditionDelivering ConditionType = "Delivering"
	ConditionDraining   ConditionType = "Draining"   // it is stopping, outstanding records are settled
	ConditionConflict   ConditionType = "Conflict"   // another file or the API declares the same id
	ConditionRolledBack ConditionType = "RolledBack" // another generation runs because the declared one failed
	// a restart would start a running connector or processor from another plugin or file, or not at all
	ConditionPlugin ConditionType = "PluginChanged"
)

// PluginChange says that a restart would start a connector or processor from another plugin or file, or not at all.
type PluginChange struct {
	Pipeline string // the pipeline of the connector or processor
	Reason   string // PluginReplaced, PluginBroken or PluginGone
	Message  string // for people
	Now      string // plugin or file for the next start, if it is PluginReplaced; for people
}

// RestartText describes the consequence of changed plugins for a restart of a pipeline.
func RestartText(pipeline string, changes []PluginChange) string {
	var uses, messages []string
	for _, c := range changes {
		messages = append(messages, c.Message)
		if c.Now != "" && !slices.Contains(uses, c.Now) {
			uses = append(uses, c.Now)
		}
	}
	if slices.ContainsFunc(changes, func(c PluginChange) bool { return c.Now == "" }) {
		return strings.Join(messages, "; ")
	}
	return "a restart would use " + strings.Join(uses, ", ") + ": conduit pipelines restart " + pipeline
}

// ConditionStatus says whether a condition is true.
type ConditionStatus string

// The condition statuses.
const (
	ConditionTrue  ConditionStatus = "True"
	ConditionFalse ConditionStatus = "False"
)

// Enum lists the statuses.
func (ConditionStatus) Enum() []string {
	return []string{string(ConditionTrue), string(ConditionFalse)}
}

// Conditions returns every condition of a pipeline, in the order of the types. problems are the problems of the files
// that declare it. changes concern its connectors and processors.
func Conditions(d *Declaration, s *State, problems []Problem, changes []PluginChange) []Condition {
	o := observation{d, s}
	return []Condition{o.valid(problems), o.applied(), o.ready(), o.delivering(), o.draining(), o.conflict(problems),
		o.rolledBack(), o.plugin(changes)}
}

// observation is the declaration and the observed state of a pipeline.
type observation struct {
	d *Declaration
	s *State
}

func (o observation) valid(problems []Problem) Condition {
	c := Condition{Type: ConditionValid, Status: ConditionTrue, Reason: "Valid", ObservedGeneration: o.d.Generation}
	i := slices.IndexFunc(problems, func(p Problem) bool { return p.Severity == SeverityError && !ofOwnership(p) })
	if i >= 0 {
		c.Status, c.Reason = ConditionFalse, "FileHasErrors"
		c.report(problems[i])
	}
	return c
}

func (o observation) conflict(problems []Problem) Condition {
	c := Condition{Type: ConditionConflict, Status: ConditionFalse, Reason: "NoConflict",
		ObservedGeneration: o.d.Generation}
	// A problem in the owner's own file is older than its ownership.
	i := slices.IndexFunc(problems, func(p Problem) bool { return ofOwnership(p) && p.File != o.d.Owner.Path })
	if i >= 0 {
		c.Status, c.Reason = ConditionTrue, "DeclaredTwice"
		if problems[i].Code == CodeOwnedByAPI {
			c.Reason = "OwnedByAPI"
		}
		c.report(problems[i])
	}
	return c
}

// ofOwnership reports whether a problem is about the ownership of a pipeline.
func ofOwnership(p Problem) bool { return p.Code == CodeOwnedByAPI || p.Code == CodeDeclaredTwice }

func (c *Condition) report(p Problem) {
	c.Message, c.File, c.Line, c.Column = p.Message, p.File, p.Line, p.Column
}

func (o observation) applied() Condition {
	c := Condition{Type: ConditionApplied, Status: ConditionFalse, ObservedGeneration: o.seen()}
	want := o.d.Want()
	if !o.d.Withdrawn.IsZero() {
		want = StatusStopped
	}
	switch {
	case want == StatusStopped && o.s.Phase == PhaseStopped:
		c.Status, c.Reason, c.Message = ConditionTrue, "Stopped", "the pipeline is stopped"+o.override()
		c.ObservedGeneration, c.LastTransitionTime = o.d.Generation, o.s.Since
	case want == StatusStopped:
		c.Reason, c.Message = "InProgress", "the pipeline is stopping"+o.override()
	case o.declaredRuns() && o.s.Stale():
		c.Reason, c.Message = "UpdateFailed", o.stale()
		o.locate(&c, "")
	case o.declaredRuns():
		c.Status, c.Reason, c.Message = ConditionTrue, "Running", fmt.Sprintf("generation %d is running%s",
			o.d.Generation, o.override())
		if a := o.s.LastAttempt; a != nil && a.Generation == o.d.Generation && a.Error == "" {
			c.LastTransitionTime = a.At
		}
	case o.s.Phase == PhaseRecovering, o.s.Phase == PhaseDegraded:
		c.Reason, c.Message = "Failed", o.s.Error
		if o.s.Stall != nil && o.s.Stall.Generation == o.d.Generation {
			o.locate(&c, o.s.Stall.Stage)
		} else {
			o.locate(&c, "")
		}
	case o.failed():
		c.Reason, c.Message = "UpdateFailed", o.s.LastAttempt.Error
		o.locate(&c, o.s.LastAttempt.Stage)
	default:
		c.Reason, c.Message = "InProgress", fmt.Sprintf("generation %d has not started yet", o.d.Generation)
	}
	return c
}

// locate sets the place in the declaring file of a connector of the declared version, or of the pipeline if stage is
// none of them.
func (o observation) locate(c *Condition, stage string) {
	c.File, c.Line = o.d.Owner.Path, o.d.Owner.Line
	p := &o.d.Pipeline
	i := slices.IndexFunc(p.Connectors, func(c Connector) bool { return p.QualifiedID(c.ID) == stage })
	if i < 0 {
		return
	}
	if m, ok := o.d.Owner.Places.Mark("/connectors/" + strconv.Itoa(i)); ok {
		c.Line, c.Column = m.Line, m.Column
	}
}

// ready compares with the last known good version, which is the running version after its probation.
func (o observation) ready() Condition {
	c := Condition{Type: ConditionReady, Status: ConditionFalse, ObservedGeneration: o.seen()}
	switch good := o.s.LastGood; {
	case o.declaredRuns() && o.s.Stale():
		c.Reason, c.Message = "Outdated", o.stale()
	case o.s.Phase == PhaseRunning && o.s.Stall != nil:
		c.Reason, c.Message = "NotDelivering", o.s.Stall.Message
	case o.declaredRuns() && good != nil && good.Generation == o.d.Generation:
		c.Status, c.Reason, c.Message = ConditionTrue, "Running", fmt.Sprintf("generation %d is running",
			o.d.Generation)
	case o.declaredRuns():
		c.Reason, c.Message = "Proving", fmt.Sprintf("generation %d is running, and is still on probation",
			o.d.Generation)
	case o.replaced():
		c.Reason, c.Message = "RolledBack", o.replacement()
	case o.s.Phase == PhaseRunning:
		c.Reason, c.Message = "Outdated", fmt.Sprintf("generation %d is running, but generation %d is declared",
			o.s.RunningGeneration, o.d.Generation)
	default:
		c.Reason, c.Message = phaseReasons[o.s.Phase], "the pipeline is "+string(o.s.Phase)
	}
	return c
}

// phaseReasons are the reasons why a pipeline in a phase is not ready.
var phaseReasons = map[Phase]string{PhaseStopped: "Stopped", PhaseStarting: "Starting", PhaseStopping: "Stopping",
	PhaseRecovering: "Recovering", PhaseDegraded: "Degraded"}

func (o observation) draining() Condition {
	c := Condition{Type: ConditionDraining, Status: ConditionFalse, Reason: "NotStopping", ObservedGeneration: o.seen()}
	if o.s.Phase == PhaseStopping {
		c.Status, c.Reason, c.Message, c.LastTransitionTime = ConditionTrue, "Stopping",
			"settling in-flight records", o.s.Since
	}
	return c
}

func (o observation) rolledBack() Condition {
	c := Condition{Type: ConditionRolledBack, Status: ConditionFalse, Reason: "NotRolledBack",
		ObservedGeneration: o.seen()}
	if o.replaced() {
		c.Status, c.Reason, c.Message = ConditionTrue, "UpdateFailed", o.replacement()+": "+o.s.LastAttempt.Error
		o.locate(&c, o.s.LastAttempt.Stage)
	}
	return c
}

func (o observation) plugin(changes []PluginChange) Condition {
	c := Condition{Type: ConditionPlugin, Status: ConditionFalse, Reason: "NotChanged", ObservedGeneration: o.seen()}
	if len(changes) > 0 {
		c.Status, c.Reason, c.Message = ConditionTrue, changes[0].Reason, RestartText(o.d.Pipeline.ID, changes)
	}
	return c
}

// seen returns the generation that was observed last: it runs, or it failed.
func (o observation) seen() int64 {
	if o.s.LastAttempt == nil {
		return o.s.RunningGeneration
	}
	return max(o.s.RunningGeneration, o.s.LastAttempt.Generation)
}

// declaredRuns reports whether the declared generation runs.
func (o observation) declaredRuns() bool {
	return o.s.Phase == PhaseRunning && o.s.RunningGeneration == o.d.Generation
}

// stale describes a version that runs as declared, but with outdated reference values.
func (o observation) stale() string {
	return fmt.Sprintf("generation %d is running, but could not be re-applied: %s", o.d.Generation,
		o.s.LastAttempt.Error)
}

// failed reports whether the declared generation was tried last, and failed.
func (o observation) failed() bool {
	a := o.s.LastAttempt
	return a != nil && a.Generation == o.d.Generation && a.Error != ""
}

// replaced reports whether another generation runs because the declared one failed.
func (o observation) replaced() bool {
	return o.failed() && o.s.Phase == PhaseRunning && o.s.RunningGeneration != o.d.Generation
}

func (o observation) replacement() string {
	return fmt.Sprintf("generation %d is running because generation %d failed", o.s.RunningGeneration, o.d.Generation)
}

// override explains a status that differs from the declared one.
func (o observation) override() string {
	switch {
	case !o.d.Withdrawn.IsZero():
		return ", because it is no longer declared"
	case o.d.Override == "":
		return ""
	}
	return ", because of a request; the declared status is " + string(o.d.Pipeline.Status)
}
