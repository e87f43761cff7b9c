package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func pipelinesListCommand(p *program) *ffcli.Command {
	return p.remote("ls", remoteCommand{
		usage: "conduit pipelines ls",
		short: "List the pipelines.",
		long:  "Example:\n  conduit pipelines ls --json",
		exec: func(ctx context.Context, r *remote, _ []string) error {
			list, err := r.Pipelines(ctx)
			if err != nil {
				return err
			}
			if len(list) == 0 && !r.json {
				return r.say(nil, "no pipelines")
			}
			var t table
			t.add("PIPELINE", "STATUS", "CONNECTORS", "PROCESSORS", "CHANGED", "NAME")
			for _, one := range list {
				status := strings.ToLower(strings.TrimPrefix(string(one.State.Status), "STATUS_"))
				t.add(one.ID, cell{status, phaseColors[spec.Phase(status)]}, len(one.ConnectorIDs), len(one.ProcessorIDs), moment(one.UpdatedAt), one.Config.Name)
			}
			return r.show(list, &t)
		},
	})
}

// phaseColors are those of phases that need attention, and of the one that is fine.
var phaseColors = map[spec.Phase]string{
	spec.PhaseRunning: colorGreen, spec.PhaseRecovering: colorYellow, spec.PhaseDegraded: colorError,
}

// moment is a time for people, in the time zone of the machine.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func pipelinesDescribeCommand(p *program) *ffcli.Command {
	return p.remote("describe", remoteCommand{
		usage:     "conduit pipelines describe ID",
		short:     "Show what is declared of a pipeline, what runs, and what happened.",
		long:      "Example:\n  conduit pipelines describe orders",
		arguments: 1,
		exec: func(ctx context.Context, r *remote, args []string) error {
			d, err := r.describe(ctx, args[0])
			if err != nil {
				return err
			}
			if r.json {
				return r.writeJSON(d)
			}
			return r.writeDescription(d)
		},
	})
}

// description is all that is shown about one pipeline.
type description struct {
	Pipeline   rest.Pipeline       `json:"pipeline"`
	Status     rest.PipelineStatus `json:"status"`
	Connectors []rest.Connector    `json:"connectors"`
	Events     []spec.Event        `json:"events"` // the latest, oldest first
}

const describedEvents = 5

func (r *remote) describe(ctx context.Context, id string) (d description, err error) {
	if d.Pipeline, _, err = r.Pipeline(ctx, id); err != nil {
		return d, err
	}
	if d.Status, err = r.Status(ctx, id); err != nil {
		return d, err
	}
	if d.Connectors, err = r.Connectors(ctx, id); err != nil {
		return d, err
	}
	events, err := r.Client.Events(ctx, -1, 0)
	d.Events = []spec.Event{}
	for _, e := range events {
		if e.Pipeline == id {
			d.Events = append(d.Events, e)
		}
	}
	d.Events = d.Events[max(0, len(d.Events)-describedEvents):]
	return d, err
}

func (r *remote) writeDescription(d description) error {
	s := &d.Status
	var facts table
	facts.add("id", s.ID)
	facts.add("name", dash(d.Pipeline.Config.Name))
	facts.add("description", dash(d.Pipeline.Config.Description))
	facts.add("declared", fmt.Sprintf("%s by %s, generation %d", s.Declared, ownerWords(s.Owner), s.Generation))
	if s.Override != "" {
		facts.add("override", fmt.Sprintf("%s, until the declaration changes", s.Override))
	}
	facts.add("phase", cell{string(s.State.Phase) + " since " + moment(s.State.Since), phaseColors[s.State.Phase]})
	facts.add("running", runningWords(s))
	if a := s.State.LastAttempt; a != nil && a.Error != "" {
		facts.add("last attempt", fmt.Sprintf("generation %d at %s, failed", a.Generation, moment(a.At)))
	}
	if s.State.RetryAt != nil {
		facts.add("tried again", moment(*s.State.RetryAt))
	}
	if len(d.Pipeline.ProcessorIDs) > 0 {
		facts.add("processors", strings.Join(d.Pipeline.ProcessorIDs, ", "))
	}
	if err := facts.write(r.stdout, r.paint); err != nil {
		return err
	}
	fmt.Fprintln(r.stdout)
	if err := conditionTable(s.Conditions).write(r.stdout, r.paint); err != nil {
		return err
	}
	fmt.Fprintln(r.stdout)
	if err := connectorTable(d.Connectors).write(r.stdout, r.paint); err != nil {
		return err
	}
	if len(d.Events) > 0 {
		fmt.Fprintln(r.stdout)
	}
	if err := r.writeEvents(d.Events); err != nil {
		return err
	}
	r.printProblems(s.Problems)
	return nil
}

// usual are the conditions that are true of a pipeline that is fine.
var usual = []spec.ConditionType{spec.ConditionValid, spec.ConditionApplied, spec.ConditionReady}

// conditionTable has the usual conditions, and those that are true.
func conditionTable(list []spec.Condition) *table {
	var t table
	t.add("CONDITION", "STATUS", "REASON", "MESSAGE")
	for _, c := range list {
		fine := slices.Contains(usual, c.Type)
		if !fine && c.Status != spec.ConditionTrue {
			continue
		}
		color := colorYellow
		if fine && c.Status == spec.ConditionTrue {
			color = colorGreen
		}
		t.add(c.Type, cell{string(c.Status), color}, c.Reason, placed(c))
	}
	return &t
}

// placed is the message of a condition with the place that it is about before it, unless
// it names places itself.
func placed(c spec.Condition) string {
	if c.File == "" || strings.Contains(c.Message, c.File+":") {
		return c.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", c.File, max(c.Line, 1), max(c.Column, 1), c.Message)
}

func (r *remote) writeEvents(events []spec.Event) error {
	var t table
	for _, e := range events {
		t.add(moment(e.At), e.Reason, e.Message)
	}
	return t.write(r.stdout, r.paint)
}

func ownerWords(o spec.Owner) string {
	switch {
	case o.Kind != spec.OwnerFile:
		return "the API"
	case o.Line == 0: // the file was not read since it got the pipeline
		return o.Path
	}
	return fmt.Sprintf("%s:%d", o.Path, o.Line)
}

func runningWords(s *rest.PipelineStatus) string {
	if s.State.RunningGeneration == 0 {
		return "nothing"
	}
	return fmt.Sprintf("generation %d", s.State.RunningGeneration)
}
