package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/rest"
)

func dlqCommand(p *program) *ffcli.Command {
	return p.group(&ffcli.Command{
		Name:       "dlq",
		ShortUsage: "conduit dlq COMMAND [flags]",
		ShortHelp:  "See, edit, replay and drop the records that pipelines refused.",
		LongHelp: `Whatever the dead-letter queue of a pipeline is, the agent keeps its refused
records on disk, also the one that stopped it. They ask the running agent.

Examples:
  conduit dlq ls                          what there is of each pipeline
  conduit dlq ls orders --error timeout   those with a certain error
  conduit dlq show orders 17              one with its record`,
		Subcommands: []*ffcli.Command{dlqListCommand(p), dlqShowCommand(p), dlqEditCommand(p), dlqReplayCommand(p), dlqDropCommand(p)},
	})
}

// deadLetterFilter is the flags that select dead letters.
type deadLetterFilter struct{ rest.DeadLetterFilter }

func (f *deadLetterFilter) flags(fs *flag.FlagSet) {
	fs.StringVar(&f.Error, "error", "", "only those whose error contains this `TEXT`, in any case")
	fs.StringVar(&f.Key, "key", "", "only those whose key contains this `TEXT`")
	fs.StringVar((*string)(&f.Stage), "stage", "", "only those of this `STAGE`: source-processor, pipeline-processor, destination-processor or destination")
	fs.Func("since", "only those refused since this `TIME`: 2026-01-02T15:04:05Z, or 2h for two hours ago", f.time(&f.Since))
	fs.Func("until", "only those refused before this `TIME`", f.time(&f.Until))
}

func (f *deadLetterFilter) time(to *time.Time) func(string) error {
	return func(text string) (err error) {
		if ago, err := time.ParseDuration(text); err == nil {
			*to = time.Now().Add(-ago)
			return nil
		}
		if *to, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("must be a time such as 2026-01-02T15:04:05Z, or how long ago, such as 2h")
		}
		return nil
	}
}

// empty reports whether nothing is selected.
func (f *deadLetterFilter) empty() bool { return f.DeadLetterFilter == rest.DeadLetterFilter{} }

// pageSize is how many dead letters are asked for at once.
const pageSize = 500

func dlqListCommand(p *program) *ffcli.Command {
	var f deadLetterFilter
	var limit int
	var before int64
	return p.remote("ls", remoteCommand{
		usage: "conduit dlq ls [PIPELINE]",
		short: "List dead letters, newest first, or how many there are of each pipeline.",
		long: `DROPPED is how many were dropped because of dead-letters.max-count and its like.

Examples:
  conduit dlq ls
  conduit dlq ls orders --error timeout --since 2h`,
		optional: 1,
		flags: func(fs *flag.FlagSet) {
			f.flags(fs)
			fs.IntVar(&limit, "limit", 50, "at most this `NUMBER`")
			fs.Int64Var(&before, "before", 0, "only those before the one with this `ID`")
		},
		exec: func(ctx context.Context, r *remote, args []string) error {
			if len(args) == 0 {
				return listTotals(ctx, r)
			}
			return listDeadLetters(ctx, r, args[0], f.DeadLetterFilter, before, max(1, limit))
		},
	})
}

func listTotals(ctx context.Context, r *remote) error {
	totals, err := r.DeadLetterTotals(ctx)
	if err != nil {
		return err
	}
	if len(totals) == 0 && !r.json {
		return r.say(nil, "no dead letters")
	}
	var t table
	t.add("PIPELINE", "DEAD LETTERS", "BYTES", "DROPPED")
	for _, one := range totals {
		t.add(one.PipelineID, one.Count, one.Bytes, one.Dropped)
	}
	return r.show(totals, &t)
}

func listDeadLetters(ctx context.Context, r *remote, pipeline string, f rest.DeadLetterFilter, before int64, limit int) error {
	all := []rest.DeadLetter{}
	for {
		page, err := r.DeadLetters(ctx, pipeline, f, before, min(pageSize, limit-len(all)))
		if err != nil {
			return err
		}
		all = append(all, page.DeadLetters...)
		if before = page.Next; before == 0 || len(all) >= limit {
			break
		}
	}
	if len(all) == 0 && !r.json {
		return r.say(nil, "no dead letters")
	}
	var t table
	t.add("ID", "AT", "STAGE", "REFUSED BY", "KEY", "TIMES", "ERROR")
	for i := range all {
		l := &all[i]
		t.add(l.ID, moment(l.LastTime), l.Stage, l.RefusedBy, dash(excerpt(l.Key)), l.Times, excerpt(l.Error))
	}
	if err := r.show(all, &t); err != nil || r.json || before == 0 {
		return err
	}
	_, err := fmt.Fprintf(r.stdout, "older ones: --before %d\n", before)
	return err
}

// shortText is how many characters of a text a table shows.
const shortText = 80

func excerpt(text string) string {
	if runes := []rune(text); len(runes) > shortText {
		return string(runes[:shortText]) + "…"
	}
	return text
}

func dlqShowCommand(p *program) *ffcli.Command {
	return p.remote("show", remoteCommand{
		usage: "conduit dlq show PIPELINE ID",
		short: "Show a dead letter: where, when and why it was refused, and its record.",
		long: `The record is in the form of opencdc; raw data is in base64.

Example:
  conduit dlq show orders 17`,
		arguments: 2,
		exec: func(ctx context.Context, r *remote, args []string) error {
			l, err := r.DeadLetter(ctx, args[0], args[1])
			if err != nil || r.json {
				return showJSON(r, l, err)
			}
			return showDeadLetter(r, &l)
		},
	})
}

func showJSON(r *remote, v any, err error) error {
	if err != nil {
		return err
	}
	return r.writeJSON(v)
}

func showDeadLetter(r *remote, l *rest.DeadLetter) error {
	var t table
	t.add("id", l.ID)
	t.add("pipeline", fmt.Sprintf("%s, generation %d", l.PipelineID, l.Generation))
	t.add("refused by", fmt.Sprintf("%s (%s)", l.RefusedBy, l.Stage))
	t.add("source", l.SourceID)
	t.add("key", dash(l.Key))
	t.add("times", l.Times)
	if l.Stopped {
		t.add("stopped", "the pipeline; its source delivers the record again when it runs")
	}
	if l.Edited {
		t.add("edited", "yes")
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
		t.add(label, fmt.Sprintf("%s by generation %d%s: %s", moment(refusal.Time), refusal.Generation, again, refusal.Error))
	}
	if err := t.write(r.stdout, r.paint); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, l.Record, "", "  "); err != nil {
		return fmt.Errorf("cannot print the record: %w", err)
	}
	_, err := fmt.Fprintf(r.stdout, "\n%s\n", printableOnly(text.String()))
	return err
}

func dlqDropCommand(p *program) *ffcli.Command {
	var f deadLetterFilter
	var all bool
	return p.remote("drop", remoteCommand{
		usage: "conduit dlq drop PIPELINE [ID...]",
		short: "Drop dead letters for good.",
		long: `Which ones is said by their ids, by the flags of 'conduit dlq ls', or by --all.

Examples:
  conduit dlq drop orders 17 18
  conduit dlq drop orders --error timeout
  conduit dlq drop orders --all`,
		arguments: 1,
		optional:  maxSelected,
		flags: func(fs *flag.FlagSet) {
			f.flags(fs)
			fs.BoolVar(&all, "all", false, "all of the pipeline")
		},
		exec: func(ctx context.Context, r *remote, args []string) error {
			ids, err := selection(args[1:], &f, all)
			if err != nil {
				return err
			}
			n, err := r.DropDeadLetters(ctx, args[0], ids, f.DeadLetterFilter)
			if err != nil {
				return err
			}
			return r.say(rest.DeadLettersDropped{Dropped: n}, "dropped %s", count(int(n), "dead letter"))
		},
	})
}

// maxSelected is how many dead letters a command names.
const maxSelected = 1000

// selection returns the ids among the arguments, and refuses what does not say clearly which
// dead letters are meant.
func selection(args []string, f *deadLetterFilter, all bool) (ids []int64, err error) {
	for _, text := range args {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, invalidf("not the id of a dead letter: %q; 'conduit dlq ls PIPELINE' lists them", text)
		}
		ids = append(ids, id)
	}
	ways := 0
	for _, given := range []bool{len(ids) > 0, !f.empty(), all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, invalidf("say which dead letters: give either ids, or flags that select some, or --all")
	}
	return ids, nil
}
