package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/term"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func statusCommand(p *Program) *ffcli.Command {
	var watch, failed, check bool
	interval := time.Second
	var selected LabelSelector
	return p.Remote("status", RemoteCommand{
		Usage: "conduit status [ID]",
		Short: "Show the status of the pipelines, and the problems of their files.",
		Long: `For each pipeline the table shows its phase, the declared and the running generation, the records per
second that are read (in) and that its slowest destination accepts (out), and its error. Problems of
files follow. A pipeline is "not delivering" while a stage retries, refuses records, does not respond
or fails repeatedly. After a failure it counts as delivering when a run has delivered for 15 seconds, or
had nothing to deliver for 30.
With an ID a table of its stages follows: records in and out per second, records held, activity,
time of the last record, and last reported error.
Problems of the agent and of the directory of pipeline files come first.
With -w the order is: problems of files, pipelines that fail or do not deliver, pipelines that were
stopped or started manually, all others.

With --check, for monitoring, the exit code is 1 when a pipeline does not run as declared, for example
because it was stopped manually, when it or an isolated destination delivers nothing although records
wait, which is detected within half a minute, when a file has an error, when the directory of pipeline
files is unreadable or lost all of them, or when the agent is not ready.

Examples:
  conduit status
  conduit status orders
  conduit status -w
  conduit status --failed --check`,
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&failed, "failed", false, "only pipelines that do not run as declared")
			fs.BoolVar(&check, "check", false, "exit with 1 if a pipeline, a file or the agent has a problem")
			fs.Var(&selected, "l", "only pipelines with these `LABELS`: key=value, key!=value, key or !key, "+
				"separated by commas")
			fs.BoolVar(&watch, "w", false, "refresh continuously, in place on a terminal")
			fs.DurationVar(&interval, "interval", interval,
				"time to wait for the rates of newly started pipelines, and between refreshes")
		},
		Optional: 1,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			if interval <= 0 {
				return Invalidf("--interval must be longer than 0")
			}
			v := &statusView{Remote: r, interval: interval, failed: failed, selected: selected}
			if len(args) == 1 {
				v.id = args[0]
				if _, err := r.Status(ctx, v.id); err != nil {
					return err // there is none, or no agent
				}
			}
			if watch {
				return v.watch(ctx)
			}
			return v.once(ctx, check)
		},
	})
}

// agentStatus is the status of the agent, its pipelines and its files.
type agentStatus struct {
	Agent     rest.Readiness   `json:"agent"`
	Pipelines []pipelineStatus `json:"pipelines"`
	Files     []spec.FileState `json:"files"` // with problems

	failed bool // only failed pipelines are included
}

type pipelineStatus struct {
	rest.PipelineStatus
	// read by all sources; unknown for a pipeline that has only begun to run
	RecordsPerSecond   *float64 `json:"recordsPerSecond,omitempty"`
	DeliveredPerSecond *float64 `json:"deliveredPerSecond,omitempty"` // accepted by the slowest destination
}

// statusView selects the part of the status to show.
type statusView struct {
	*Remote
	interval time.Duration
	id       string // of the only pipeline; "" for all
	failed   bool   // only pipelines that do not run as declared
	selected LabelSelector
}

// errUnwell ends a command that has already shown the problems.
var errUnwell = errors.New("")

// once waits for an interval if the agent has yet to measure rates.
func (v *statusView) once(ctx context.Context, check bool) error {
	s, err := v.status(ctx)
	if err == nil && s.unmeasured() {
		if err = sleep(ctx, v.interval); err == nil {
			s, err = v.status(ctx)
		}
	}
	if err == nil {
		err = writeStatus(v.Remote, v.Stdout, s, layout{below: v.Terminal, stages: v.id != ""})
	}
	if err == nil && check && !s.well() {
		err = errUnwell
	}
	return err
}

// status returns the selected part of the status.
func (v *statusView) status(ctx context.Context) (agentStatus, error) {
	s, err := status(ctx, v.Remote)
	s.failed = v.failed
	s.Pipelines = slices.DeleteFunc(s.Pipelines, func(p pipelineStatus) bool {
		return v.id != "" && p.ID != v.id || v.failed && p.asDeclared() || !v.selected.Matches(p.Labels)
	})
	if v.id != "" {
		s.Files = slices.DeleteFunc(s.Files, func(f spec.FileState) bool {
			return !slices.ContainsFunc(f.Problems, func(p spec.Problem) bool { return p.Pipeline == v.id })
		})
	}
	return s, err
}

// asDeclared reports whether the pipeline is as declared, or in progress without a failure. A pipeline that was stopped
// or started by hand is not.
func (p *pipelineStatus) asDeclared() bool { return !p.fails() && p.Override == "" }

func (p *pipelineStatus) fails() bool {
	return p.stalled() || p.State.Phase == spec.PhaseDegraded || p.State.Phase == spec.PhaseRecovering ||
		errorWords(p) != ""
}

// stalled reports whether the pipeline should run but delivers nothing.
func (p *pipelineStatus) stalled() bool {
	return p.State.Stall != nil
}

// attention returns the rank of a pipeline in the order of display, from 0.
func attention(p *pipelineStatus) int {
	switch {
	case p.fails():
		return 0
	case !p.asDeclared():
		return 1
	}
	return 2
}

// well reports whether there are no problems.
func (s *agentStatus) well() bool {
	return s.Agent.Status == "ready" && !lostFiles(s.Agent.Directory) &&
		!slices.ContainsFunc(s.Pipelines, func(p pipelineStatus) bool { return !p.asDeclared() }) &&
		!slices.ContainsFunc(s.Files, func(f spec.FileState) bool { return HasErrors(f.Problems) })
}

// lostFiles reports whether pipelines that were declared in files may no longer be as their files say. A directory that
// is missing may never have existed: there are agents whose pipelines all come from the API.
func lostFiles(d *spec.Directory) bool {
	return d != nil && slices.Contains([]spec.DirectoryState{spec.DirectoryUnreadable, spec.DirectoryHeld,
		spec.DirectoryEmptied}, d.State)
}

// watch runs until it is interrupted. An agent that goes away may come back.
func (v *statusView) watch(ctx context.Context) error {
	r := v.Remote
	ctx, stop := UntilSignal(ctx)
	defer stop()
	for first := true; ; first = false {
		s, err := v.status(ctx)
		if ctx.Err() != nil {
			return nil
		}
		sort.SliceStable(s.Pipelines, func(i, j int) bool { // urgent ones stay visible
			return attention(&s.Pipelines[i]) < attention(&s.Pipelines[j])
		})
		if err != nil && first {
			return err
		}
		var page bytes.Buffer
		if err != nil {
			fmt.Fprintln(&page, r.Explain(err))
		} else if err := writeStatus(r, &page, s, v.layout()); err != nil {
			return err
		}
		if err := refresh(r, page.Bytes(), first); err != nil {
			return err
		}
		if sleep(ctx, v.interval) != nil {
			return nil
		}
	}
}

// layout is the arrangement of the table of pipelines.
type layout struct {
	first  bool // problems of files and warnings precede the table, which may be longer than the terminal
	below  bool // errors are on lines below their pipelines, rather than in a column
	stages bool // a table of the stages of the only pipeline follows
	id     int  // maximum number of characters of an id; 0: unlimited
}

// otherColumns is the usual width of all columns except the ids, in characters. At least minID characters of an id
// are shown in any case.
const (
	otherColumns = 74
	minID        = 16
)

// layout returns the layout that fits the terminal, if there is one.
func (v *statusView) layout() layout {
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && v.Terminal {
		return layout{first: true, below: true, stages: v.id != "", id: max(minID, width-otherColumns)}
	}
	return layout{first: true, stages: v.id != ""}
}

// refresh shows a page. On a terminal it replaces the previous one.
func refresh(r *Remote, page []byte, first bool) error {
	switch {
	case r.Terminal && !r.JSON:
		if width, height, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			page = terminal.Fit(page, width, height-1)
		}
		page = bytes.ReplaceAll(page, []byte("\n"), []byte(terminal.Steer(terminal.ClearLine)+"\n"))
		page = append([]byte(terminal.Steer(terminal.Home)), append(page, terminal.Steer(terminal.ClearBelow)...)...)
		if first {
			page = append([]byte(terminal.Steer(terminal.ClearAll)), page...)
		}
	case !first && !r.JSON:
		page = append([]byte("\n"), page...)
	}
	_, err := r.Stdout.Write(page)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func status(ctx context.Context, r *Remote) (s agentStatus, err error) {
	if s.Agent, err = readiness(ctx, r); err != nil {
		return s, err
	}
	if s.Pipelines, err = statuses(ctx, r); client.Reason(err) == rest.ReasonStore {
		s.Files = []spec.FileState{}
		return s, nil // the agent gives the reason for having none
	}
	if err != nil {
		return s, err
	}
	files, err := r.Files(ctx)
	s.Files = []spec.FileState{}
	for _, f := range files {
		if len(f.Problems) > 0 {
			s.Files = append(s.Files, f)
		}
	}
	return s, err
}

// readiness returns how ready the agent is. An agent that is not ready is no error.
func readiness(ctx context.Context, r *Remote) (rest.Readiness, error) {
	body, err := r.Ready(ctx)
	var refused *client.Error
	if errors.As(err, &refused) && refused.HTTP == http.StatusServiceUnavailable {
		body.Status = cmp.Or(body.Status, "not ready")
		return body, nil
	}
	return body, err
}

// statuses returns the status of every pipeline, by id.
func statuses(ctx context.Context, r *Remote) ([]pipelineStatus, error) {
	list, err := r.Statuses(ctx)
	all := make([]pipelineStatus, 0, len(list))
	for _, one := range list {
		status := pipelineStatus{PipelineStatus: one}
		if one.Rates != nil {
			status.RecordsPerSecond, status.DeliveredPerSecond = &one.Rates.Records, &one.Rates.Delivered
		}
		all = append(all, status)
	}
	return all, err
}

// useWords describes the uses of the memory, in MiB.
func useWords(by spec.MemoryUses) string {
	var words []string
	by.Each(func(use string, bytes int64) {
		if bytes >= 1<<20 {
			words = append(words, fmt.Sprintf("%s %d", use, bytes>>20))
		}
	})
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// unmeasured reports whether a running pipeline has no rates yet.
func (s *agentStatus) unmeasured() bool {
	return slices.ContainsFunc(s.Pipelines, func(p pipelineStatus) bool {
		return p.State.RunningGeneration > 0 && p.RecordsPerSecond == nil
	})
}

func writeStatus(r *Remote, to io.Writer, s agentStatus, l layout) error {
	if r.JSON {
		return WriteJSON(to, s)
	}
	if s.Agent.Status != "ready" {
		fmt.Fprintf(to, "the agent is %s\n",
			strings.TrimSuffix(r.Paint(s.Agent.Status, terminal.Red)+": "+s.Agent.Reason, ": "))
	}
	if d := s.Agent.Directory; d != nil && d.State != spec.DirectoryOK {
		fmt.Fprintf(to, "pipelines directory %s since %s: %s\n", r.Paint(string(d.State), terminal.Yellow),
			terminal.Moment(d.Since), d.Message)
	}
	if m := s.Agent.Memory; m != nil {
		fmt.Fprintf(to, "%s: sources that wait for memory: %d; records take %d of %d MiB%s\n",
			r.Paint("short of memory", terminal.Yellow), m.Waiting, m.Used>>20, m.Bytes>>20, useWords(m.By))
	}
	if l.first {
		writeConcerns(r, to, s)
	}
	if len(s.Pipelines) == 0 && s.failed {
		fmt.Fprintln(to, "no pipeline fails")
	} else if len(s.Pipelines) == 0 {
		fmt.Fprintln(to, "no pipelines")
	} else if err := pipelineTable(s.Pipelines, l).Write(to, r.Paint); err != nil {
		return err
	}
	if !l.first {
		writeConcerns(r, to, s)
	}
	if l.stages && len(s.Pipelines) == 1 && s.Pipelines[0].Rates != nil {
		return writeStages(r, to, s.Pipelines[0].Rates)
	}
	return nil
}

// writeConcerns writes the warnings of sources and the problems of files.
func writeConcerns(r *Remote, to io.Writer, s agentStatus) {
	writeWarnings(r, to, s.Pipelines)
	if len(s.Files) > 0 && s.Files[0].Unseen != "" {
		fmt.Fprintln(to, "when the files were last read:")
	}
	for _, f := range s.Files {
		r.ProblemsTo(to, f.Problems)
	}
}

func pipelineTable(all []pipelineStatus, l layout) *terminal.Table {
	t := &terminal.Table{}
	columns := []any{"PIPELINE", "PHASE", "VERSION DECLARED", "VERSION RUNNING", "RECORDS/S", "BEHIND"}
	if !l.below {
		columns = append(columns, "ERROR")
	}
	t.Add(columns...)
	for i := range all {
		one, id := &all[i], all[i].ID
		if l.id > 0 {
			id = terminal.Shorten(id, l.id)
		}
		cells := []any{id, phaseWords(one), generationWords(one),
			terminal.Dash(number(one.State.RunningGeneration)), passingWords(one),
			terminal.Dash(behindWords(one.Rates))}
		switch text := terminal.OneError(withoutFrames(errorWords(one), one.ID)); {
		case !l.below:
			t.Add(append(cells, terminal.Colored(text, terminal.Red))...)
		case text != "":
			t.Add(cells...)
			t.Note(text, terminal.Red)
		default:
			t.Add(cells...)
		}
	}
	return t
}

// phaseWords returns the phase of a pipeline, or its place if it runs elsewhere.
func phaseWords(s *pipelineStatus) terminal.Cell {
	count := ""
	if s.Instances != nil && s.Terms != nil && s.Terms.Instances != "" {
		count = " (" + s.Instances.Count() + ")"
	}
	switch p := s.Placement; {
	case p != nil && p.Member == "" && s.State.Phase == spec.PhaseStopped:
		return terminal.Colored("not assigned yet"+count, terminal.Yellow)
	case p != nil && s.State.Phase == spec.PhaseStopped:
		return terminal.Cell{Text: "on " + p.Member + " since " + terminal.Moment(*p.Since) + count}
	}
	if s.stalled() && s.State.Phase == spec.PhaseRunning {
		return terminal.Colored(s.State.Stall.State()+count, terminal.Red)
	}
	return terminal.Colored(string(s.State.Phase)+count, PhaseColors[s.State.Phase])
}

// pluginsChanged describes the consequence of changed plugins for a restart of a pipeline, empty if none changed. fails
// reports whether the restart would fail.
func pluginsChanged(s *rest.PipelineStatus) (text string, fails bool) {
	for _, c := range s.Conditions {
		if c.Type == spec.ConditionPlugin && c.Status == spec.ConditionTrue {
			return c.Message, c.Reason != "PluginReplaced"
		}
	}
	return "", false
}

// writeWarnings writes the changes of plugins, the warnings and notes of the sources, the data that they left out, and
// the number of refused records.
func writeWarnings(r *Remote, to io.Writer, all []pipelineStatus) {
	for i := range all {
		if text, fails := pluginsChanged(&all[i].PipelineStatus); fails {
			fmt.Fprintf(to, "%s %s: %s\n", r.Paint("warning:", terminal.Yellow), all[i].ID, terminal.Line(text))
		} else if text != "" {
			fmt.Fprintf(to, "%s %s: %s\n", r.Paint("note:", terminal.Dim), all[i].ID, terminal.Line(text))
		}
		if all[i].Rates == nil {
			continue
		}
		if n := all[i].Rates.Refused; n > 0 {
			fmt.Fprintf(to, "%s %s: %s refused since the agent started; list them: conduit dlq ls %[2]s\n",
				r.Paint("note:", terminal.Dim), all[i].ID, terminal.Count(int(n), "record"))
		}
		for id, stage := range all[i].Rates.Stages {
			for _, note := range stage.Notes {
				fmt.Fprintf(to, "%s %s: %s\n", r.Paint("note:", terminal.Dim), id, terminal.Line(note))
			}
			if stage.Behind != nil && stage.Behind.Warning != "" {
				fmt.Fprintf(to, "%s %s: %s\n", r.Paint("warning:", terminal.Yellow), id, stage.Behind.Warning)
			}
			if stage.Behind == nil {
				continue
			}
			for _, note := range stage.Behind.Notes {
				fmt.Fprintf(to, "%s %s: %s\n", r.Paint("note:", terminal.Dim), id, terminal.Line(note))
			}
			for _, skip := range stage.Behind.Skipped {
				fmt.Fprintf(to, "%s %s skips %s since %s: %s\n", r.Paint("warning:", terminal.Yellow), id, skip.Of,
					terminal.Moment(skip.Since), skip.Error)
			}
		}
	}
}

// generationWords returns the declared generation, and the reason why it is not in effect.
func generationWords(s *pipelineStatus) string {
	switch {
	case s.Withdrawn != nil:
		return fmt.Sprintf("%d, withdrawn", s.Generation)
	case s.Override != "":
		done := "stopped"
		if s.Override == spec.StatusRunning {
			done = "started"
		}
		return fmt.Sprintf("%d, %s by hand, declared %s", s.Generation, done, s.Declared)
	}
	return fmt.Sprint(s.Generation)
}

// errorWords explains why the declared version does not run, and why the pipeline delivers nothing.
func errorWords(s *pipelineStatus) string {
	if !s.stalled() {
		return cmp.Or(s.State.Error, updateWords(s))
	}
	stall, update := stallWords(&s.State), updateWords(s)
	if a := s.State.LastAttempt; update == "" || a != nil && a.Error != "" && strings.Contains(stall, a.Error) {
		return stall
	}
	return update + "; " + stall
}

// updateWords explains why the declared version does not run, "" if it does.
func updateWords(s *pipelineStatus) string {
	switch a := s.State.LastAttempt; {
	case s.State.Stale():
		return fmt.Sprintf("generation %d is running, but could not be re-applied: %s", a.Generation, a.Error)
	case a != nil && a.Error != "" && a.Generation == s.Generation:
		return fmt.Sprintf("generation %d cannot start: %s", a.Generation, a.Error)
	case s.Placement != nil && s.Placement.Failed != nil:
		return s.Placement.Failed.Text()
	}
	return ""
}

// withoutFrames returns the error of a pipeline without the stack of a plugin that panicked.
func withoutFrames(text, pipeline string) string {
	head, _, is := strings.Cut(text, "\ngoroutine ")
	if !is {
		return text
	}
	if end := spec.NotAgain(pipeline); strings.HasSuffix(text, end) {
		return head + " …)" + end
	}
	return head + " …)"
}

// stallWords explains why a pipeline delivers nothing, and since when.
func stallWords(s *spec.State) string {
	return "since " + terminal.Moment(s.Stall.Since) + ": " + cmp.Or(s.Error, s.Stall.Message)
}

// passingWords returns the records per second that a pipeline reads and delivers.
func passingWords(s *pipelineStatus) string {
	if s.RecordsPerSecond == nil || s.DeliveredPerSecond == nil {
		return "-"
	}
	return rateWords(s.RecordsPerSecond) + " in, " + rateWords(s.DeliveredPerSecond) + " out"
}

func rateWords(rate *float64) string {
	switch {
	case rate == nil:
		return "-"
	case *rate > 0 && *rate < 10:
		return fmt.Sprintf("%.1f", *rate)
	}
	return fmt.Sprintf("%.0f", *rate)
}

// behindWords says how far the sources are behind their systems, for sources that report it, which sources have
// delivered nothing yet, and what waits for isolated destinations.
func behindWords(r *spec.PipelineRates) string {
	if r == nil {
		return ""
	}
	var all []string
	for _, id := range slices.Sorted(maps.Keys(r.Stages)) {
		if b := r.Stages[id].Behind; b != nil {
			if text := b.String(); text != "" {
				all = append(all, text)
			}
		}
		if waiting := r.Stages[id].Waiting; waiting != "" {
			all = append(all, id+": "+waiting)
		}
		if b := r.Stages[id].Backlog; b != nil && (b.Records > 0 || b.Error != "") {
			all = append(all, id+": "+b.Text)
		}
	}
	return strings.Join(all, "; ")
}

// number formats n, 0 as an empty text.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
