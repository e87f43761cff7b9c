package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

func (p *program) planCommand() *ffcli.Command {
	flags := newFlags("plan")
	s := settingFlags(flags, "pipelines.path", "db.sqlite.path", "pipelines.cleanup-delay")
	asJSON := flags.Bool("json", false, "print JSON")
	tell := flags.Bool("exit-code", false, "exit with 2 when something would change")
	return &ffcli.Command{
		Name:       "plan",
		ShortUsage: "conduit pipelines plan [PATH...] [flags]",
		ShortHelp:  "Show what saved pipeline files would change, and how severely.",
		LongHelp: `Compares pipeline files with the desired state in the store; an agent may be running or
not. PATH is a directory to be used as pipelines.path, or files to be saved in there. Each
change stands with its line and its effect; values of settings are never shown.

  +    the pipeline is new
  ~    it changes without a restart, or while it is stopped
  -/+  it restarts from its saved position, or loses it
  -    it is no longer declared

The exit code is 2 when a file has errors.

Examples:
  conduit pipelines plan
  conduit pipelines plan --exit-code ./checkout/pipelines`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			paths, err := positional(flags, args, len(args))
			if err != nil {
				return err
			}
			c, err := s.load(p)
			if err != nil {
				return err
			}
			plan, err := makePlan(ctx, c, paths)
			if err != nil {
				return err
			}
			if *asJSON {
				err = p.writeJSON(plan)
			} else {
				err = p.writePlan(plan, c.Pipelines)
			}
			if err == nil && (hasErrors(plan.Problems) || *tell && len(plan.Pipelines) > 0) {
				return &invalidError{}
			}
			return err
		},
	}
}

func makePlan(ctx context.Context, c config.Config, paths []string) (*agent.Plan, error) {
	plan, err := agent.MakePlan(ctx, c, paths)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, invalidf("%v", err)
	}
	return plan, err
}

func hasErrors(problems []spec.Problem) bool {
	return slices.ContainsFunc(problems, func(problem spec.Problem) bool { return problem.Severity == spec.SeverityError })
}

func (p *program) writePlan(plan *agent.Plan, c config.Pipelines) error {
	counts := map[string]int{}
	for i := range plan.Pipelines {
		one := &plan.Pipelines[i]
		symbol := planSymbol(one)
		counts[symbol]++
		place := one.File
		if one.Line > 0 {
			place = fmt.Sprintf("%s:%d", one.File, one.Line)
		}
		fmt.Fprintf(p.stdout, "%s %s (%s): %s\n", p.paint(symbol, symbolColors[symbol]), one.ID, place, planWords(one, c))
		if err := p.writePlanned(one); err != nil {
			return err
		}
	}
	p.printProblems(plan.Problems)
	switch {
	case len(plan.Pipelines) > 0:
		fmt.Fprintf(p.stdout, "%d to add, %d to change, %d to restart, %d to remove\n", counts["+"], counts["~"], counts["-/+"], counts["-"])
	case len(plan.Problems) == 0:
		fmt.Fprintln(p.stdout, "no changes")
	}
	return nil
}

// writePlanned writes a line for each change of a pipeline that stays.
func (p *program) writePlanned(one *agent.PlannedPipeline) error {
	if one.Action != spec.ActionChange {
		return nil
	}
	var t table
	for _, c := range one.Changes {
		t.add("", "", actionSymbols[c.Action]+" "+c.Path, fmt.Sprintf("%d:%d", c.Line, c.Column), effectWords[c.Effect])
	}
	return t.write(p.stdout, p.paint)
}

var (
	actionSymbols = map[spec.Action]string{spec.ActionAdd: "+", spec.ActionRemove: "-", spec.ActionChange: "~"}
	symbolColors  = map[string]string{"+": colorGreen, "~": colorYellow, "-/+": colorYellow, "-": colorError}
	effectWords   = map[spec.Effect]string{
		spec.EffectNone:         "nothing running is touched",
		spec.EffectInPlace:      "in place",
		spec.EffectRestart:      "restart",
		spec.EffectPositionLost: "restart, position lost",
	}
)

func planSymbol(one *agent.PlannedPipeline) string {
	switch {
	case one.Action != spec.ActionChange:
		return actionSymbols[one.Action]
	case one.From == spec.StatusRunning && one.To == spec.StatusRunning && one.Effect != spec.EffectNone && one.Effect != spec.EffectInPlace:
		return "-/+"
	}
	return "~"
}

// planWords says what becomes of a pipeline.
func planWords(one *agent.PlannedPipeline, c config.Pipelines) string {
	var words string
	switch runs := one.From == spec.StatusRunning; {
	case one.Action == spec.ActionRemove && runs:
		return "drains and stops; " + cleanUpWords(c)
	case one.Action == spec.ActionRemove:
		return cleanUpWords(c)
	case one.To == spec.StatusRunning && !runs:
		words = "starts"
	case one.To == spec.StatusStopped && runs:
		words = "drains and stops"
	case one.To == spec.StatusStopped:
		words = "stopped"
	default:
		words = map[spec.Effect]string{
			spec.EffectNone: effectWords[spec.EffectNone], spec.EffectInPlace: "changes in place",
			spec.EffectRestart: "restarts from its saved position", spec.EffectPositionLost: "restarts",
		}[one.Effect]
	}
	if one.Effect == spec.EffectPositionLost {
		words += "; a source loses its position"
	}
	return words
}

func cleanUpWords(c config.Pipelines) string {
	return "its positions are forgotten after " + config.DurationText(c.CleanupDelay)
}
