package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// onceFlags are the flags of 'conduit run' that make it end.
type onceFlags struct {
	once bool
	idle time.Duration
}

// once ends the agent when its pipelines have come to rest.
type once struct {
	*Program
	idle    time.Duration
	outcome chan error // of wait; capacity 1
}

// onceRetries is how often a failed pipeline is retried: with unlimited retries the command would not end.
const onceRetries = 3

func runOnce(ctx context.Context, p *Program, s *Settings, idle time.Duration) error {
	if idle <= 0 {
		return Invalidf("--idle must be longer than 0")
	}
	o := &once{Program: p, idle: idle, outcome: make(chan error, 1)}
	if err := runAgent(ctx, p, s, o); err != nil {
		return err
	}
	select {
	case err := <-o.outcome:
		return err
	default: // the agent ended before
		return errors.New("ended before all pipelines were idle")
	}
}

// prepare adapts the settings to an agent that ends by itself.
func (o *once) prepare(c *config.Config, s *Settings) error {
	if c.Cluster.Name != "" {
		return Invalidf(
			"--once cannot be used in a cluster, where pipelines may run on other members: unset cluster.name")
	}
	if _, given := s.Given["pipelines.error-recovery.max-retries"]; !given && c.Pipelines.ErrorRecovery.MaxRetries < 0 {
		c.Pipelines.ErrorRecovery.MaxRetries = onceRetries
	}
	return nil
}

// wait ends the agent when its pipelines have come to rest.
func (o *once) wait(ctx context.Context, a *agent.Agent, end func()) {
	w := &onceWait{
		Idle: o.idle,
		Scanned: func(ctx context.Context) error {
			if err := a.Files.Scanned(ctx); err != nil {
				return err
			}
			return a.Loop.Check(ctx)
		},
		Declared: a.Store.Declarations,
		State:    a.Loop.State,
		Lags: func(id string) map[string]measure.Lag {
			running, _ := a.Runner.Pipeline(id)
			if running == nil {
				return nil
			}
			lags := running.Lags()
			if a.Runner.Isolation != nil {
				a.Runner.Isolation.Wait(lags, running)
			}
			return lags
		},
		Complete: func(id string) {
			if running, _ := a.Runner.Pipeline(id); running != nil {
				running.Complete()
			}
		},
	}
	all, err := w.Run(ctx)
	if ctx.Err() != nil {
		return // a signal ends the agent
	}
	if err == nil {
		err = o.report(ctx, a, all)
	}
	o.outcome <- err
	end()
}

// report prints failures and returns an error if there are any.
func (o *once) report(ctx context.Context, a *agent.Agent, all []finished) error {
	files, err := a.Store.FileStates(ctx)
	if err != nil {
		return err
	}
	failed := false
	if err := a.Files.Status().Err; err != nil {
		failed = true
		fmt.Fprintf(o.Stderr, "conduit: %s\n", terminal.OneError(err.Error()))
	}
	for _, f := range files {
		failed = failed || HasErrors(f.Problems)
		o.ProblemsTo(o.Stderr, f.Problems)
	}
	read := uint64(0)
	for i := range all {
		n, refused := counts(a, all[i].ID)
		read += n
		for _, id := range all[i].Endless {
			fmt.Fprintf(o.Stderr, "conduit: pipeline %s: source %s has no end; it delivered "+
				"nothing for %s\n", all[i].ID, id, o.idle)
		}
		for _, words := range nothing(a, all[i].ID) {
			fmt.Fprintf(o.Stderr, "conduit: pipeline %s: warning: %s\n", all[i].ID, terminal.OneError(words))
		}
		for _, words := range slices.Concat(all[i].Unread, []string{failure(&all[i]), refusals(refused)},
			skipped(a, all[i].ID)) {
			if words != "" {
				failed = true
				fmt.Fprintf(o.Stderr, "conduit: pipeline %s: %s\n", all[i].ID, terminal.OneError(words))
			}
		}
	}
	fmt.Fprintf(o.Stderr, "conduit: %s idle, %s read\n", terminal.Count(len(all), "pipeline"),
		terminal.Count(int(read), "record"))
	if failed {
		return errUnwell
	}
	return nil
}

// skipped describes the data that the sources of a pipeline left out.
func skipped(a *agent.Agent, id string) (all []string) {
	running, _ := a.Runner.Pipeline(id)
	if running == nil {
		return nil
	}
	lags := running.Lags()
	for _, source := range slices.Sorted(maps.Keys(lags)) {
		for _, s := range lags[source].Behind.Skipped {
			all = append(all, fmt.Sprintf("%s leaves out %s: %s", source, s.Of, s.Error))
		}
	}
	return all
}

// nothing names the sources of a pipeline that had nothing to read, with the reason.
func nothing(a *agent.Agent, id string) (all []string) {
	running, _ := a.Runner.Pipeline(id)
	if running == nil {
		return nil
	}
	lags := running.Lags()
	for _, source := range slices.Sorted(maps.Keys(lags)) {
		if why := lags[source].Behind.Nothing; why != "" {
			all = append(all, source+": "+why)
		}
	}
	return all
}

// counts returns how many records a pipeline read, and how many it refused.
func counts(a *agent.Agent, id string) (read, refused uint64) {
	_, stats := a.Runner.Pipeline(id)
	if stats == nil {
		return 0, 0
	}
	stats.Each(func(typ spec.ConnectorType, _ string, c *measure.Connector) {
		if typ == spec.TypeSource {
			read += c.Records.Load()
		}
	})
	return read, stats.DeadLetters.Records.Load()
}

// failure returns the reason why a pipeline did not come to rest as declared, "" if it did.
func failure(r *finished) string {
	switch a := r.State.LastAttempt; {
	case r.State.Phase == spec.PhaseDegraded:
		return "degraded: " + strings.TrimSuffix(r.State.Error, spec.NotAgain(r.ID)) // it ends with this agent
	case !r.Applied && a != nil:
		return fmt.Sprintf("generation %d cannot start: %s", a.Generation, a.Error)
	case !r.Applied:
		return "does not run as declared"
	}
	return ""
}

func refusals(n uint64) string {
	if n == 0 {
		return ""
	}
	return terminal.Count(int(n), "record") + " refused"
}
