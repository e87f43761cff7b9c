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
		LongHelp: `The state is in the file of the setting db.sqlite.path: what is declared, positions, history. Refused
records are in a file next to it, with .dead-letters behind its name; each command is about both. A check and a
backup may be made while the agent runs.

Examples:
  conduit store backup /backup/conduit-monday.db
  conduit store restore /backup/conduit-monday.db`,
		Subcommands: []*ffcli.Command{
			storeCommandOn(p, "check", "", "Read all of the state, and say what is damaged.",
				"It changes nothing, and fails when something is damaged.", check),
			storeCommandOn(p, "backup", "FILE", "Copy the state as it is at this moment.",
				`Writes FILE and, when there are refused records, FILE.dead-letters, neither of which may be there yet. They hold
the secrets that settings hold, and have mode 0600. The agent goes on. A copy made by other means while the agent runs
is not complete without the write-ahead log, and is refused when an agent starts with it.`, backup),
			storeCommandOn(p, "restore", "FILE", "Put a backup in the place of the state.",
				`The agent must not run, or wait because its state is damaged. What is replaced is kept. Sources go on after the positions of
the backup: those that deliver records again, and those that start over, are listed.`, restore),
			storeCommandOn(p, "repair", "", "Keep what can be read of a damaged state.",
				`The agent must not run, or wait because its state is damaged. Rows that can be read are copied to a new file, table by
table, and what could not be read is said. What is replaced is kept. What is whole is left as it is.`, repair),
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
		return fmt.Errorf("%d of %d files are damaged: conduit store restore FILE puts a backup in their place, "+
			"conduit store repair keeps what can be read", damaged, len(all))
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
		fmt.Fprintf(r.Stdout, "wrote %s\n", name)
	}
	return nil
}

func restore(ctx context.Context, r *storeRun) error {
	o, err := maintenance.Restore(ctx, r.file, r.path, ending("replaced"))
	if err != nil {
		return err
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
		fmt.Fprintf(r.Stdout, "%s is whole and left as it is\n", name)
	}
	for _, t := range o.Read {
		fmt.Fprintf(r.Stdout, "table %s: %s", t.Table, terminal.Count(t.Rows, "row"))
		if t.Error != "" {
			fmt.Fprintf(r.Stdout, "; the rest cannot be read: %s", terminal.OneLine(t.Error))
		}
		fmt.Fprintln(r.Stdout)
	}
	for _, row := range o.Lost {
		fmt.Fprintf(r.Stdout, "lost: %s\n", terminal.OneLine(row))
	}
	for _, name := range o.Kept {
		fmt.Fprintf(r.Stdout, "what was there is kept as %s\n", name)
	}
	for _, m := range o.Moved {
		fmt.Fprintf(r.Stdout, "source %s goes on after position %s and delivers again what it delivered since",
			m.ConnectorID, m.From)
		if m.Was != "" {
			fmt.Fprintf(r.Stdout, "; it had got to %s", m.Was)
		}
		fmt.Fprintln(r.Stdout)
	}
	for _, id := range o.Anew {
		fmt.Fprintf(r.Stdout, "source %s begins from its beginning: no position of it is known\n", id)
	}
	if len(o.Kept) > 0 && len(o.Moved)+len(o.Anew) == 0 {
		fmt.Fprintln(r.Stdout, "no source delivers anything again")
	}
	return nil
}
