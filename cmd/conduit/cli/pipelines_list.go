package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func pipelinesListCommand(p *Program) *ffcli.Command {
	var selected LabelSelector
	return p.Remote("ls", RemoteCommand{
		Usage: "conduit pipelines ls",
		Short: "List the pipelines.",
		Long:  "Examples:\n  conduit pipelines ls --json\n  conduit pipelines ls -l team=shop,site!=berlin",
		Flags: func(fs *flag.FlagSet) { selectFlag(fs, &selected) },
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			list, err := listed(ctx, r)
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(p owned) bool { return !selected.Matches(p.Config.Labels) })
			if len(list) == 0 && !r.JSON {
				return r.Say(nil, "no pipelines")
			}
			var t terminal.Table
			t.Add("PIPELINE", "STATUS", "OWNER", "CONNECTORS", "PROCESSORS", "CHANGED", "NAME", "LABELS")
			for _, one := range list {
				status := strings.ToLower(strings.TrimPrefix(string(one.State.Status), "STATUS_"))
				t.Add(one.ID, terminal.Colored(status, PhaseColors[spec.Phase(status)]), one.ownerWords(),
					len(one.ConnectorIDs), len(one.ProcessorIDs), terminal.Moment(one.UpdatedAt),
					one.Config.Name, LabelText(one.Config.Labels))
			}
			return r.Show(list, &t)
		},
	})
}

// owned is a pipeline with its owner.
type owned struct {
	rest.Pipeline

	Owner     spec.Owner `json:"owner,omitzero"` // zero if the pipeline was created or deleted meanwhile
	Withdrawn *time.Time `json:"withdrawn,omitempty"`
}

// listed returns all pipelines with their owners, which are in another list of the API.
func listed(ctx context.Context, r *Remote) ([]owned, error) {
	list, err := r.Pipelines(ctx)
	if err != nil {
		return nil, err
	}
	statuses, err := r.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*rest.PipelineStatus, len(statuses))
	for i := range statuses {
		byID[statuses[i].ID] = &statuses[i]
	}
	all := make([]owned, len(list))
	for i, one := range list {
		all[i].Pipeline = one
		if s := byID[one.ID]; s != nil {
			all[i].Owner, all[i].Withdrawn = s.Owner, s.Withdrawn
		}
	}
	return all, nil
}

func (o *owned) ownerWords() string {
	switch {
	case o.Owner.Kind == "":
		return "-"
	case o.Withdrawn != nil:
		return ownerWords(o.Owner) + ", withdrawn"
	}
	return ownerWords(o.Owner)
}

// PhaseColors are the colors of phases that need attention, and of the running phase.
var PhaseColors = map[spec.Phase]string{
	spec.PhaseRunning: terminal.Green, spec.PhaseRecovering: terminal.Yellow, spec.PhaseDegraded: terminal.Red,
}

func pipelinesDescribeCommand(p *Program) *ffcli.Command {
	return p.Remote("describe", RemoteCommand{
		Usage:     "conduit pipelines describe ID",
		Short:     "Show the declaration, state and latest events of a pipeline.",
		Long:      "Example:\n  conduit pipelines describe orders",
		Arguments: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			d, err := describePipeline(ctx, r, args[0])
			if err != nil {
				return err
			}
			if r.JSON {
				return r.WriteJSON(d)
			}
			return writeDescription(r, d)
		},
	})
}

// description is the complete output about a pipeline.
type description struct {
	Pipeline   rest.Pipeline       `json:"pipeline"`
	Status     rest.PipelineStatus `json:"status"`
	Connectors []rest.Connector    `json:"connectors"`
	Events     []spec.Event        `json:"events"` // the latest, oldest first
}

const describedEvents = 5

func describePipeline(ctx context.Context, r *Remote, id string) (d description, err error) {
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

// termsWords describes the settings of a pipeline for a cluster.
func termsWords(t *spec.EffectiveTerms) string {
	text := string(t.Mode)
	if t.Reason != "" {
		text += ", because " + t.Reason
	}
	if len(t.Labels) > 0 {
		text += "; on members with " + LabelText(t.Labels)
	}
	return text
}

// instancesWords names the members that run the instances of a pipeline.
func instancesWords(i *spec.RunningInstances) string {
	var all []string
	for _, one := range i.Running {
		all = append(all, fmt.Sprintf("%d on %s since %s", one.Instance, one.Member, terminal.Moment(one.Since)))
	}
	if i.Message != "" {
		all = append(all, i.Message)
	}
	if len(i.Running) == 0 {
		return fmt.Sprintf("%s declared; %s", i.Declared, strings.Join(all, "; "))
	}
	return i.Count() + ": " + strings.Join(all, "; ")
}

// memberWords names the other member that has to run a pipeline, and the version that failed there.
func memberWords(p *spec.Assignment) string {
	member := cmp.Or(p.Member, "no member can run it: 'conduit cluster status' shows the reason")
	if p.Failed != nil {
		return member + "; " + p.Failed.Text()
	}
	return member
}

func writeDescription(r *Remote, d description) error {
	s := &d.Status
	var facts terminal.Table
	facts.Add("id", s.ID)
	facts.Add("name", terminal.Dash(d.Pipeline.Config.Name))
	facts.Add("description", terminal.Dash(d.Pipeline.Config.Description))
	if len(s.Labels) > 0 {
		facts.Add("labels", LabelText(s.Labels))
	}
	if s.Placement != nil {
		facts.Add("member", memberWords(s.Placement))
	}
	if s.Instances != nil {
		facts.Add("instances", instancesWords(s.Instances))
	}
	if s.Terms != nil {
		facts.Add("cluster", termsWords(s.Terms))
		for _, what := range s.Terms.OnHost {
			facts.Add("on the host", what)
		}
	}
	if len(s.DeadLettersElsewhere) > 0 {
		facts.Add("dead letters", spec.DeadLettersText(s.DeadLettersElsewhere))
	}
	facts.Add("declared", fmt.Sprintf("%s by %s, generation %d", s.Declared, ownerWords(s.Owner), s.Generation))
	if s.Override != "" {
		facts.Add("override", fmt.Sprintf("%s, until the declaration changes", s.Override))
	}
	facts.Add("phase", terminal.Colored(string(s.State.Phase)+" since "+terminal.Moment(s.State.Since),
		PhaseColors[s.State.Phase]))
	facts.Add("running", runningWords(s))
	if a := s.State.LastAttempt; a != nil && a.Error != "" {
		facts.Add("last attempt", fmt.Sprintf("generation %d at %s, failed", a.Generation, terminal.Moment(a.At)))
	}
	if stall := s.State.Stall; stall != nil {
		facts.Add("delivers", terminal.Colored("nothing since "+terminal.Moment(stall.Since), terminal.Red))
	}
	if s.State.RetryAt != nil {
		facts.Add("tried again", terminal.Moment(*s.State.RetryAt))
	}
	if len(d.Pipeline.ProcessorIDs) > 0 {
		facts.Add("processors", strings.Join(d.Pipeline.ProcessorIDs, ", "))
	}
	if err := facts.Write(r.Stdout, r.Paint); err != nil {
		return err
	}
	fmt.Fprintln(r.Stdout)
	if err := conditionTable(s.Conditions).Write(r.Stdout, r.Paint); err != nil {
		return err
	}
	fmt.Fprintln(r.Stdout)
	if err := connectorTable(d.Connectors).Write(r.Stdout, r.Paint); err != nil {
		return err
	}
	if len(d.Events) > 0 {
		fmt.Fprintln(r.Stdout)
	}
	if err := writeEvents(r, d.Events); err != nil {
		return err
	}
	r.PrintProblems(s.Problems)
	return nil
}

// usual are the conditions that are true of a healthy pipeline.
var usual = []spec.ConditionType{spec.ConditionValid, spec.ConditionApplied, spec.ConditionReady,
	spec.ConditionDelivering}

// conditionTable has the usual conditions, and all conditions that are true.
func conditionTable(list []spec.Condition) *terminal.Table {
	var t terminal.Table
	t.Add("CONDITION", "STATUS", "REASON", "MESSAGE")
	for _, c := range list {
		fine := slices.Contains(usual, c.Type)
		if !fine && c.Status != spec.ConditionTrue {
			continue
		}
		color := terminal.Yellow
		if fine && c.Status == spec.ConditionTrue {
			color = terminal.Green
		}
		t.Add(c.Type, terminal.Colored(string(c.Status), color), c.Reason, placedProblem(c))
	}
	return &t
}

// placedProblem returns the message of a condition, after its place unless the message names places itself.
func placedProblem(c spec.Condition) string {
	if c.File == "" || strings.Contains(c.Message, c.File+":") {
		return c.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", c.File, max(c.Line, 1), max(c.Column, 1), c.Message)
}

func writeEvents(r *Remote, events []spec.Event) error {
	var t terminal.Table
	for _, e := range events {
		t.Add(terminal.Moment(e.At), e.Reason, e.Message)
	}
	return t.Write(r.Stdout, r.Paint)
}

func ownerWords(o spec.Owner) string {
	switch {
	case o.Kind != spec.OwnerFile:
		return "the API"
	case o.Line == 0: // the file was not read since it became the owner
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
