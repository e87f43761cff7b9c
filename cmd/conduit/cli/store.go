package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/maintenance"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// storeCommand returns 'conduit store' and the commands below it.
func storeCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "store",
		ShortUsage: "conduit store COMMAND [flags]",
		ShortHelp:  "Check, back up, restore or repair the state of the agent.",
		LongHelp: `The file db.sqlite.path contains declarations, positions and history. Dead letters are in a file next
to it with the suffix .dead-letters. Each command processes both files. check and backup work while
the agent runs.

Examples:
  conduit store backup /backup/conduit-monday.db
  conduit store restore /backup/conduit-monday.db`,
		Subcommands: []*ffcli.Command{
			storeCommandOn(p, "check", "", "Verify the state.",
				"The command changes nothing, and fails when a file is damaged.", check),
			storeCommandOn(p, "backup", "FILE", "Write a consistent copy of the state.",
				`Writes FILE and, if there are dead letters, FILE.dead-letters; neither may exist. The files contain
secrets of settings and have mode 0600. The agent keeps running. A copy made by other means while the
agent runs is incomplete without the write-ahead log, and an agent refuses to start with it.`, backup),
			storeCommandOn(p, "restore", "FILE", "Replace the state by a backup.",
				`Stop the agent first, unless it waits because its state is damaged. The replaced files are
kept. Sources resume from the positions of the backup; the command lists sources that deliver
records again or start over.`, restore),
			storeCommandOn(p, "repair", "", "Recover the readable rows of a damaged state.",
				`Stop the agent first, unless it waits because its state is damaged. The command copies
readable rows to a new file, table by table, and reports unreadable ones. The replaced files are
kept. Intact files are not changed.`, repair),
		},
	})
}

// storeRun is the run of a command on a store.
type storeRun struct {
	*Program
	path string // of the store
	file string // that the user names
	json bool
}

func storeCommandOn(
	p *Program, name, argument, short, long string, do func(ctx context.Context, r *storeRun) error,
) *ffcli.Command {
	flags := NewFlags(name)
	settings, asJSON := SettingFlags(flags, "db.sqlite.path"), storeJSONFlag(flags)
	usage := "conduit store " + name
	if argument != "" {
		usage += " " + argument
	}
	return &ffcli.Command{
		Name: name, ShortUsage: usage + " [flags]", ShortHelp: short, LongHelp: long, FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			args, err := Positional(flags, args, len(argument)/len("FILE"))
			if err != nil {
				return err
			}
			if argument != "" && len(args) == 0 {
				return Invalidf("%s needs a file: %s", name, usage)
			}
			c, err := settings.Load(p)
			if err != nil {
				return err
			}
			if err := ambiguous(c); err != nil {
				return err
			}
			r := &storeRun{Program: p, path: c.DB.SQLite.Path, json: *asJSON}
			if argument != "" {
				r.file = args[0]
			}
			return do(ctx, r)
		},
	}
}

func storeJSONFlag(flags *flag.FlagSet) *bool { return flags.Bool("json", false, "print JSON") }

func check(ctx context.Context, r *storeRun) error {
	all, err := maintenance.Check(ctx, r.path)
	if err != nil {
		return err
	}
	damaged := 0
	for _, c := range all {
		if len(c.Found) > 0 {
			damaged++
		}
	}
	if r.json {
		if err := r.WriteJSON(all); err != nil {
			return err
		}
	} else {
		for _, c := range all {
			fmt.Fprintf(r.Stdout, "%s: %s, %d bytes: %s\n", terminal.Line(c.Path), c.Name, c.Bytes,
				cmp.Or(count(c.Found), "whole"))
			for _, line := range c.Found {
				fmt.Fprintf(r.Stdout, "  %s\n", terminal.OneLine(line))
			}
		}
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %d files are damaged: conduit store restore FILE replaces them by a backup, "+
			"conduit store repair keeps readable rows", damaged, len(all))
	}
	return nil
}

func count(found []string) string {
	if len(found) == 0 {
		return ""
	}
	return terminal.Count(len(found), "problem")
}

func backup(ctx context.Context, r *storeRun) error {
	written, err := maintenance.Backup(ctx, r.path, r.file)
	if err != nil {
		return err
	}
	if r.json {
		return r.WriteJSON(map[string][]string{"written": written})
	}
	for _, name := range written {
		fmt.Fprintf(r.Stdout, "wrote %s\n", terminal.Line(name))
	}
	fmt.Fprintf(r.Stdout, "a copy of %s\n", terminal.Line(absolute(r.path)))
	return nil
}

func restore(ctx context.Context, r *storeRun) error {
	o, err := maintenance.Restore(ctx, r.file, r.path, ending("replaced"))
	if err != nil {
		return err
	}
	if !r.json {
		fmt.Fprintf(r.Stdout, "restored %s\n", terminal.Line(absolute(r.path)))
	}
	return r.say(o)
}

func repair(ctx context.Context, r *storeRun) error {
	o, err := maintenance.Repair(ctx, r.path, ending("damaged"))
	if err != nil {
		return err
	}
	return r.say(o)
}

// ending returns the suffix for the names of replaced files.
func ending(word string) string {
	return "." + word + "-" + time.Now().UTC().Format("20060102T150405Z")
}

// say describes the outcome for files and sources.
func (r *storeRun) say(o maintenance.Outcome) error {
	if r.json {
		return r.WriteJSON(o)
	}
	for _, name := range o.Whole {
		fmt.Fprintf(r.Stdout, "%s is intact and not changed\n", name)
	}
	for _, t := range o.Read {
		fmt.Fprintf(r.Stdout, "table %s: %s", t.Table, terminal.Count(t.Rows, "row"))
		if t.Error != "" {
			fmt.Fprintf(r.Stdout, "; the other rows cannot be read: %s", terminal.OneLine(t.Error))
		}
		fmt.Fprintln(r.Stdout)
	}
	for _, row := range o.Lost {
		fmt.Fprintf(r.Stdout, "lost: %s\n", terminal.OneLine(row))
	}
	for _, name := range o.Kept {
		fmt.Fprintf(r.Stdout, "the replaced file is kept as %s\n", name)
	}
	for _, m := range o.Moved {
		fmt.Fprintf(r.Stdout, "source %s resumes from position %s and delivers all later records again",
			m.ConnectorID, m.From)
		if m.Was != "" {
			fmt.Fprintf(r.Stdout, "; it had reached %s", m.Was)
		}
		fmt.Fprintln(r.Stdout)
	}
	for _, id := range o.Anew {
		fmt.Fprintf(r.Stdout, "source %s starts over: it has no saved position\n", id)
	}
	if len(o.Kept) > 0 && len(o.Moved)+len(o.Anew) == 0 {
		fmt.Fprintln(r.Stdout, "no source delivers records again")
	}
	return nil
}
