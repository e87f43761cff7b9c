package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// dlqCommand returns 'conduit dlq' and the commands below it.
func dlqCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "dlq",
		ShortUsage: "conduit dlq COMMAND [flags]",
		ShortHelp:  "List, edit, replay and drop dead letters.",
		LongHelp: `A dead letter is a record that a pipeline refused, with its error. The agent keeps dead letters on
disk, whatever the dead-letter queue of the pipeline is, including the record that stopped the
pipeline. These commands talk to the running agent.

Examples:
  conduit dlq ls                          count dead letters by pipeline
  conduit dlq ls orders --error timeout   list those with a certain error
  conduit dlq show orders 17              show one with its record`,
		Subcommands: []*ffcli.Command{dlqListCommand(p), showCommand(p), editCommand(p), replayCommand(p),
			cancelCommand(p), dropCommand(p)},
	})
}

// deadLetterFilter is the flags that select dead letters.
type deadLetterFilter struct{ spec.DeadLetterFilter }

func (f *deadLetterFilter) flags(fs *flag.FlagSet) {
	fs.StringVar(&f.Error, "error", "", "only those whose error contains `TEXT`, ignoring case")
	fs.StringVar(&f.Key, "key", "", "only those whose key contains `TEXT`")
	fs.StringVar((*string)(&f.Stage), "stage", "",
		"only those of `STAGE`: source-processor, pipeline-processor, destination-processor or destination")
	fs.Func("since", "only those refused since `TIME`: 2026-01-02T15:04:05Z, or 2h for two hours ago",
		f.time(&f.Since))
	fs.Func("until", "only those refused before `TIME`", f.time(&f.Until))
}

func (f *deadLetterFilter) time(to *time.Time) func(string) error {
	return func(text string) (err error) {
		if ago, err := time.ParseDuration(text); err == nil {
			*to = time.Now().Add(-ago)
			return nil
		}
		if *to, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("must be a time such as 2026-01-02T15:04:05Z, or an age such as 2h")
		}
		return nil
	}
}

// empty reports whether nothing is selected.
func (f *deadLetterFilter) empty() bool { return f.DeadLetterFilter == spec.DeadLetterFilter{} }

// pageSize is the number of dead letters per request.
const pageSize = 500

func dlqListCommand(p *Program) *ffcli.Command {
	var f deadLetterFilter
	var limit int
	var before int64
	var records bool
	return p.Remote("ls", RemoteCommand{
		Usage: "conduit dlq ls [PIPELINE]",
		Short: "List dead letters, newest first, or their number by pipeline.",
		Long: `DROPPED counts those deleted because of dead-letters.max-count and the other limits. The list has the
dead letters on the agent's disk and in the store of its cluster, and names other members with
dead letters on their disks.

Examples:
  conduit dlq ls
  conduit dlq ls orders --error timeout --since 2h
  conduit dlq ls orders --records --limit 10`,
		Optional: 1,
		Flags: func(fs *flag.FlagSet) {
			f.flags(fs)
			fs.IntVar(&limit, "limit", 50, "maximum `NUMBER` to list")
			fs.Int64Var(&before, "before", 0, "only those older than dead letter `ID`")
			fs.BoolVar(&records, "records", false, "show the beginning of each record, unless it is large")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			if len(args) == 0 {
				return listTotals(ctx, r)
			}
			return listDeadLetters(ctx, r, args[0], f.DeadLetterFilter, before, max(1, limit), records)
		},
	})
}

func listTotals(ctx context.Context, r *Remote) error {
	totals, err := r.DeadLetterTotals(ctx)
	if err != nil {
		return err
	}
	if len(totals) == 0 && !r.JSON {
		return r.Say(nil, "no dead letters")
	}
	var t terminal.Table
	t.Add("PIPELINE", "DEAD LETTERS", "BYTES", "DROPPED")
	for _, one := range totals {
		t.Add(one.PipelineID, one.Count, one.Bytes, one.Dropped)
	}
	return r.Show(totals, &t)
}

func listDeadLetters(
	ctx context.Context, r *Remote, pipeline string, f spec.DeadLetterFilter, before int64, limit int, records bool,
) error {
	all := []spec.DeadLetter{}
	var options []client.Option
	if records {
		options = append(options, client.Query("records", "true"))
	}
	var elsewhere []spec.MemberDeadLetters
	var replay *spec.Replay
	for {
		page, err := r.DeadLetters(ctx, pipeline, f, before, min(pageSize, limit-len(all)), options...)
		if err != nil {
			return err
		}
		all, elsewhere, replay = append(all, page.DeadLetters...), page.Elsewhere, page.Replay
		if before = page.Next; before == 0 || len(all) >= limit {
			break
		}
	}
	if replay != nil && !r.JSON {
		defer fmt.Fprintf(r.Stdout, "replay of %s%s: %d settled, %d refused again\n", pipeline,
			onMember(replay), replay.Settled, replay.Refused)
	}
	if len(elsewhere) > 0 && !r.JSON {
		defer fmt.Fprintf(r.Stdout, "on other members; query them with --api.address: %s\n",
			spec.DeadLettersText(elsewhere))
	}
	if len(all) == 0 && !r.JSON {
		return r.Say(nil, "no dead letters")
	}
	var t terminal.Table
	titles := []any{"ID", "AT", "STAGE", "REFUSED BY", "KEY", "TIMES"}
	if records {
		titles = append(titles, "RECORD")
	}
	t.Add(append(titles, "ERROR")...) // the last one, because it may be long
	for i := range all {
		l := &all[i]
		cells := []any{l.ID, terminal.Moment(l.LastTime), l.Stage, l.RefusedBy, terminal.Dash(excerpt(l.Key)), l.Times}
		if records {
			cells = append(cells, terminal.Dash(excerpt(terminal.OneLine(l.Excerpt))))
		}
		if r.Terminal {
			cells = append(cells, withoutMiddle(terminal.OneLine(l.Error)))
		} else {
			cells = append(cells, l.Error)
		}
		t.Add(cells...)
	}
	if err := r.Show(all, &t); err != nil || r.JSON || before == 0 {
		return err
	}
	_, err := fmt.Fprintf(r.Stdout, "for older ones: --before %d\n", before)
	return err
}

// shortText is the maximum length of a text in a table, in characters.
const shortText = 80

func excerpt(text string) string {
	if runes := []rune(text); len(runes) > shortText {
		return string(runes[:shortText]) + "…"
	}
	return text
}

// withoutMiddle returns an error for a terminal. It leaves out the middle of a long one: an error begins with the
// action that failed, and ends with the cause and the remedy.
func withoutMiddle(text string) string {
	const begin, end = 60, 180
	if runes := []rune(text); len(runes) > begin+1+end {
		return string(runes[:begin]) + "…" + string(runes[len(runes)-end:])
	}
	return text
}

func showCommand(p *Program) *ffcli.Command {
	return p.Remote("show", RemoteCommand{
		Usage: "conduit dlq show PIPELINE ID",
		Short: "Show a dead letter: its stage, time, error and record.",
		Long: `Raw data and the position are text, or "base64:…" for bytes that are not text.

Example:
  conduit dlq show orders 17`,
		Arguments: 2,
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			l, err := r.DeadLetter(ctx, args[0], args[1])
			if err != nil || r.JSON {
				return showJSON(r, l, err)
			}
			return showDeadLetter(r, &l)
		},
	})
}

func showJSON(r *Remote, v any, err error) error {
	if err != nil {
		return err
	}
	return r.WriteJSON(v)
}

func showDeadLetter(r *Remote, l *spec.DeadLetter) error {
	var t terminal.Table
	t.Add("id", l.ID)
	t.Add("pipeline", fmt.Sprintf("%s, generation %d", l.PipelineID, l.Generation))
	t.Add("refused by", fmt.Sprintf("%s (%s)", l.RefusedBy, l.Stage))
	t.Add("source", l.SourceID)
	t.Add("key", terminal.Dash(l.Key))
	t.Add("times", l.Times)
	if l.Stopped {
		t.Add("stopped", "the pipeline; its source delivers the record again when the pipeline runs")
	}
	if l.Edited {
		t.Add("edited", "yes")
	}
	for i, refusal := range l.Refusals {
		label := ""
		if i == 0 {
			label = "refused"
		}
		again := ""
		if refusal.Replay {
			again = ", replayed"
		}
		t.Add(label, fmt.Sprintf("%s by generation %d%s: %s", terminal.Moment(refusal.Time), refusal.Generation, again,
			refusal.Error))
	}
	if err := t.Write(r.Stdout, r.Paint); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, l.Record, "", "  "); err != nil {
		return fmt.Errorf("cannot print the record: %w", err)
	}
	_, err := fmt.Fprintf(r.Stdout, "\n%s\n", terminal.Clean(text.String()))
	return err
}

func dropCommand(p *Program) *ffcli.Command {
	var f deadLetterFilter
	var all, yes bool
	return p.Remote("drop", RemoteCommand{
		Usage: "conduit dlq drop PIPELINE [ID...]",
		Short: "Delete dead letters permanently.",
		Long: `Select them by id, by the flags of 'conduit dlq ls', or with --all. Unless they are selected by id,
the command asks for confirmation.

Examples:
  conduit dlq drop orders 17 18
  conduit dlq drop orders --error timeout
  conduit dlq drop orders --all --yes`,
		Arguments: 1,
		Optional:  maxSelected,
		Flags: func(fs *flag.FlagSet) {
			f.flags(fs)
			fs.BoolVar(&all, "all", false, "all dead letters of the pipeline")
			fs.BoolVar(&yes, "yes", false, "do not ask for confirmation")
		},
		Exec: func(ctx context.Context, r *Remote, args []string) error {
			ids, err := selection(args[1:], &f, all)
			if err != nil {
				return err
			}
			if err := confirmDrop(ctx, r, args[0], len(ids) > 0 || yes, all); err != nil {
				return err
			}
			n, err := r.DropDeadLetters(ctx, args[0], ids, f.DeadLetterFilter)
			if err != nil {
				return err
			}
			err = r.Say(rest.DeadLettersDropped{Dropped: n}, "dropped %s", terminal.Count(int(n), "dead letter"))
			if err == nil {
				err = missing(args[0], len(ids), n)
			}
			return err
		},
	})
}

// confirmDrop asks before dead letters are deleted that were not named one by one.
func confirmDrop(ctx context.Context, r *Remote, pipeline string, yes, all bool) error {
	if yes {
		return nil
	}
	totals, err := r.DeadLetterTotals(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(totals, func(t spec.DeadLetterTotals) bool { return t.PipelineID == pipeline })
	if i < 0 || totals[i].Count == 0 {
		return nil // the agent answers that there are none, or no such pipeline
	}
	which := "matching dead letters"
	if all {
		which = terminal.Count(int(totals[i].Count), "dead letter")
	}
	return r.Confirm(false, fmt.Sprintf("Delete %s of %s permanently?", which, pipeline))
}

// maxSelected is the maximum number of ids in a command.
const maxSelected = 1000

// selection returns the ids among the arguments, and refuses arguments that do not select dead letters in exactly one
// way.
func selection(args []string, f *deadLetterFilter, all bool) (ids []int64, err error) {
	for _, text := range args {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, Invalidf("%q is not the id of a dead letter; 'conduit dlq ls PIPELINE' lists them", text)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	ways := 0
	for _, given := range []bool{len(ids) > 0, !f.empty(), all} {
		if given {
			ways++
		}
	}
	switch ways {
	case 0:
		return nil, Invalidf("no dead letters selected: give ids, selecting flags, or --all")
	case 1:
		return ids, nil
	}
	return nil, Invalidf("dead letters selected in several ways: give only ids, only selecting flags, or only --all")
}

// missing returns an error unless a command found as many dead letters as were named.
func missing(pipeline string, named int, found int64) error {
	if int64(named) <= found {
		return nil
	}
	which := "the dead letter is not there"
	if named > 1 {
		which = fmt.Sprintf("%d of the %d dead letters are not there", int64(named)-found, named)
	}
	return fmt.Errorf("%s: replayed or dropped before? 'conduit dlq ls %s' lists the dead letters", which, pipeline)
}
