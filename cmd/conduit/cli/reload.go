package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func reloadCommand(p *Program) *ffcli.Command {
	var wait, prune bool
	timeout := time.Minute
	return p.Remote("reload", RemoteCommand{
		Usage: "conduit reload",
		Short: "Make the agent read the pipeline files now.",
		Long: `The agent reads changed files anyway; this command also reports the result for each file.
With --wait it returns when every pipeline runs as declared, new versions for the time
pipelines.confirm, or has failed, and deleted pipelines have stopped.
It then also lists the sources that lost their positions because of the files.
The exit code is 2 when a file has errors. With --wait it is 1 when a pipeline does not run as
declared, or does not within the time limit.

Example:
  conduit reload --wait`,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&wait, "wait", false, "return when every pipeline runs as declared or has failed")
			fs.DurationVar(&timeout, "timeout", timeout, "maximum time to wait")
			fs.BoolVar(&prune, "prune", false, "withdraw all pipelines of files even if no file is left")
		},
		Exec: func(ctx context.Context, r *Remote, _ []string) error {
			result, err := reload(ctx, r, wait, prune, timeout)
			if err != nil {
				return err
			}
			return reloadReport(r, result)
		},
	})
}

// reloadResult is the result of reading the files.
type reloadResult struct {
	Files    []spec.FileState `json:"files"`
	Failed   []pipelineStatus `json:"failed"`   // pipelines that do not run as declared
	Waiting  []string         `json:"waiting"`  // pipelines that were not ready at the timeout
	Warnings []spec.Event     `json:"warnings"` // warnings about effects of the current files that may not be intended
}

func reload(ctx context.Context, r *Remote, wait, prune bool, timeout time.Duration) (*reloadResult, error) {
	files, err := r.Reload(ctx, prune)
	result := &reloadResult{Files: files, Failed: []pipelineStatus{}, Waiting: []string{}, Warnings: []spec.Event{}}
	if err != nil || !wait {
		return result, err
	}
	const pollInterval = 20 * time.Millisecond
	for deadline := time.Now().Add(timeout); ; {
		all, err := statuses(ctx, r)
		if err != nil {
			return nil, err
		}
		result.Failed, result.Waiting = unfinished(all)
		if len(result.Waiting) == 0 || time.Now().After(deadline) {
			events, err := r.Client.Events(ctx, -1, warnedEvents)
			result.Warnings = warningsOf(files, events)
			return result, err
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return nil, err
		}
	}
}

// warnedEvents is the number of latest events that are searched for warnings: the maximum that the agent returns at
// once.
const warnedEvents = 1000

// warned are the reasons of events that the author of a file may not expect.
var warned = []string{"PositionLost", "LooksRenamed"}

// warningsOf returns the events that warn of effects of the files since their last change.
func warningsOf(files []spec.FileState, events []spec.Event) []spec.Event {
	all := []spec.Event{}
	for _, e := range events {
		if slices.Contains(warned, e.Reason) && slices.ContainsFunc(files, func(f spec.FileState) bool {
			return causes(f, e)
		}) {
			all = append(all, e)
		}
	}
	return all
}

// causes reports whether the current content of f caused e.
func causes(f spec.FileState, e spec.Event) bool {
	return slices.Contains(f.Pipelines, e.Pipeline) && !e.At.Before(f.SeenAt)
}

// unfinished returns the pipelines that failed, and the pipelines that are still in progress; all others run as
// declared.
func unfinished(all []pipelineStatus) (failed []pipelineStatus, waiting []string) {
	failed, waiting = []pipelineStatus{}, []string{}
	for i := range all {
		switch s := &all[i]; s.outcome() {
		case spec.OutcomeFailed:
			failed = append(failed, *s)
		case spec.OutcomePending:
			waiting = append(waiting, s.ID)
		}
	}
	return failed, waiting
}

func (s *pipelineStatus) outcome() spec.Outcome {
	if s.Withdrawn != nil {
		return spec.OutcomePending
	}
	if s.Placement != nil && s.Placement.Failed != nil {
		return spec.OutcomeFailed
	}
	if s.Placement != nil && s.Placement.Member != "" {
		return spec.OutcomeOK // the member that runs it has the details
	}
	return spec.OutcomeOf(cmp.Or(s.Override, s.Declared), s.Generation, &s.State)
}

func reloadReport(r *Remote, result *reloadResult) error {
	bad := 0
	for _, f := range result.Files {
		if HasErrors(f.Problems) {
			bad++
		}
	}
	if r.JSON {
		if err := r.WriteJSON(result); err != nil {
			return err
		}
	} else {
		writeReload(r, result)
	}
	switch {
	case bad > 0:
		return Invalidf("%s errors", has(bad, "file"))
	case len(result.Failed) > 0:
		return fmt.Errorf("%s not run as declared", does(len(result.Failed), "pipeline"))
	case len(result.Waiting) > 0:
		return fmt.Errorf("%s not ready yet", has(len(result.Waiting), "pipeline"))
	}
	return nil
}

func writeReload(r *Remote, result *reloadResult) {
	for _, f := range result.Files {
		mark := terminal.Colored("ok", terminal.Green)
		switch {
		case HasErrors(f.Problems):
			mark = terminal.Colored("error", terminal.Red)
		case slices.ContainsFunc(result.Failed, func(s pipelineStatus) bool {
			return slices.Contains(f.Pipelines, s.ID)
		}):
			mark = terminal.Colored("failed", terminal.Red)
		case slices.ContainsFunc(result.Waiting, func(id string) bool { return slices.Contains(f.Pipelines, id) }):
			mark = terminal.Colored("pending", terminal.Yellow)
		}
		fmt.Fprintf(r.Stdout, "%s %s: %s\n", r.Paint(mark.Text, mark.Color), f.Path,
			terminal.Count(len(f.Pipelines), "pipeline"))
		r.PrintProblems(f.Problems)
		for _, e := range result.Warnings {
			if causes(f, e) {
				fmt.Fprintf(r.Stdout, "%s: %s: pipeline %s: %s\n", terminal.Line(f.Path),
					r.Severity(spec.SeverityWarning), e.Pipeline, e.Message)
			}
		}
	}
	if len(result.Files) == 0 {
		fmt.Fprintln(r.Stdout, "no files")
	}
	for i := range result.Failed {
		fmt.Fprintf(r.Stdout, "%s: %s\n", result.Failed[i].ID, terminal.OneError(errorWords(&result.Failed[i])))
	}
	for _, id := range result.Waiting {
		fmt.Fprintf(r.Stdout, "%s: not ready yet\n", id)
	}
}

func has(n int, noun string) string {
	if n == 1 {
		return terminal.Count(n, noun) + " has"
	}
	return terminal.Count(n, noun) + " have"
}

func does(n int, noun string) string {
	if n == 1 {
		return terminal.Count(n, noun) + " does"
	}
	return terminal.Count(n, noun) + " do"
}
