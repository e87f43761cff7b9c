package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/spec"
)

func (p *program) reloadCommand() *ffcli.Command {
	var wait, prune bool
	timeout := time.Minute
	return p.remote("reload", remoteCommand{
		usage: "conduit reload",
		short: "Have the agent read the pipeline files now.",
		long: `It reads them anyway when they change; this tells you that it did, and how it went. The exit
code is 2 when a file has errors, and with --wait it is 1 when a pipeline does not run as it
is declared.

Example:
  conduit reload --wait`,
		flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&wait, "wait", false, "return when every pipeline runs as declared, or does not get to")
			fs.DurationVar(&timeout, "timeout", timeout, "how long to wait at most")
			fs.BoolVar(&prune, "prune", false, "withdraw the pipelines of all files even if no file is left")
		},
		exec: func(ctx context.Context, r *remote, _ []string) error {
			result, err := r.reload(ctx, wait, prune, timeout)
			if err != nil {
				return err
			}
			return r.tellReload(result)
		},
	})
}

// reloadResult is what came of reading the files.
type reloadResult struct {
	Files   []spec.FileState `json:"files"`
	Failed  []pipelineStatus `json:"failed"`  // pipelines that do not run as declared
	Waiting []string         `json:"waiting"` // pipelines that were not there yet when time was up
}

func (r *remote) reload(ctx context.Context, wait, prune bool, timeout time.Duration) (*reloadResult, error) {
	files, err := r.Reload(ctx, prune)
	result := &reloadResult{Files: files, Failed: []pipelineStatus{}, Waiting: []string{}}
	if err != nil || !wait {
		return result, err
	}
	const lookAgain = 20 * time.Millisecond
	for deadline := time.Now().Add(timeout); ; {
		all, err := r.statuses(ctx)
		if err != nil {
			return nil, err
		}
		result.Failed, result.Waiting = settle(all)
		if len(result.Waiting) == 0 || time.Now().After(deadline) {
			return result, nil
		}
		if err := sleep(ctx, lookAgain); err != nil {
			return nil, err
		}
	}
}

// settle tells pipelines that failed, and those that are still on their way, from those
// that are what is declared.
func settle(all []pipelineStatus) (failed []pipelineStatus, waiting []string) {
	failed, waiting = []pipelineStatus{}, []string{}
	for i := range all {
		s := &all[i]
		want := s.Declared
		if s.Override != "" {
			want = s.Override
		}
		tried := s.State.LastAttempt != nil && s.State.LastAttempt.Generation == s.Generation
		switch phase := s.State.Phase; {
		case want == spec.StatusStopped && phase == spec.PhaseStopped:
		case want == spec.StatusStopped:
			waiting = append(waiting, s.ID)
		case phase == spec.PhaseRunning && s.State.RunningGeneration == s.Generation:
		case tried && (phase == spec.PhaseRecovering || phase == spec.PhaseDegraded || phase == spec.PhaseRunning && s.State.LastAttempt.Error != ""):
			failed = append(failed, *s)
		default:
			waiting = append(waiting, s.ID)
		}
	}
	return failed, waiting
}

func (r *remote) tellReload(result *reloadResult) error {
	bad := 0
	for _, f := range result.Files {
		if hasErrors(f.Problems) {
			bad++
		}
	}
	if r.json {
		if err := r.writeJSON(result); err != nil {
			return err
		}
	} else {
		r.writeReload(result)
	}
	switch {
	case bad > 0:
		return invalidf("%s errors", has(bad, "file"))
	case len(result.Failed) > 0:
		return fmt.Errorf("%s not run as declared", does(len(result.Failed), "pipeline"))
	case len(result.Waiting) > 0:
		return fmt.Errorf("%s not got there yet", has(len(result.Waiting), "pipeline"))
	}
	return nil
}

func (r *remote) writeReload(result *reloadResult) {
	for _, f := range result.Files {
		mark := cell{"ok", colorGreen}
		if hasErrors(f.Problems) {
			mark = cell{"error", colorError}
		}
		fmt.Fprintf(r.stdout, "%s %s: %s\n", r.paint(mark.text, mark.color), f.Path, count(len(f.Pipelines), "pipeline"))
		r.printProblems(f.Problems)
	}
	if len(result.Files) == 0 {
		fmt.Fprintln(r.stdout, "no files")
	}
	for i := range result.Failed {
		fmt.Fprintf(r.stdout, "%s: %s\n", result.Failed[i].ID, oneLine(errorWords(&result.Failed[i])))
	}
	for _, id := range result.Waiting {
		fmt.Fprintf(r.stdout, "%s: not there yet\n", id)
	}
}

func has(n int, noun string) string {
	if n == 1 {
		return count(n, noun) + " has"
	}
	return count(n, noun) + " have"
}

func does(n int, noun string) string {
	if n == 1 {
		return count(n, noun) + " does"
	}
	return count(n, noun) + " do"
}
