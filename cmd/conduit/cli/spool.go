package cli

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// spoolCommand returns 'conduit spool' and the commands below it.
func spoolCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "spool",
		ShortUsage: "conduit spool COMMAND DIRECTORY [flags]",
		ShortHelp:  "List, check and print the records of a spool, or remove old ones.",
		LongHelp: `A spool is the directory that the connector "spool" writes to. All commands except truncate work
while an agent uses it.`,
		Subcommands: []*ffcli.Command{
			spoolListCommand(p),
			spoolCheckCommand(p),
			spool(p, "export", "Print the records of a spool, one JSON object per line.",
				"Records are in OpenCDC's JSON, with raw data in base64. Damaged records are skipped and reported on "+
					"stderr.",
				NewFlags("export"), exportSpool),
			truncateCommand(p),
		},
	})
}

func jsonFlag(flags *flag.FlagSet) *bool { return flags.Bool("json", false, "print JSON") }

// spool returns a command about the spool in a directory.
func spool(
	p *Program, name, short, long string, flags *flag.FlagSet, do func(p *Program, dir string) error,
) *ffcli.Command {
	return &ffcli.Command{
		Name:       name,
		ShortUsage: "conduit spool " + name + " DIRECTORY [flags]",
		ShortHelp:  short,
		LongHelp:   long,
		FlagSet:    flags,
		Exec: func(_ context.Context, args []string) error {
			dir, err := Argument(flags, args, "%s needs the directory of a spool: conduit spool %s DIRECTORY", name,
				name)
			if err != nil {
				return err
			}
			return do(p, dir)
		},
	}
}

func exportSpool(p *Program, dir string) error {
	s, err := spoollog.Inspect(dir)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(p.Document())
	var line []byte
	err = spoollog.Walk(dir, func(next uint64, r *record.Record) (err error) {
		r.Position = fmt.Appendf(nil, "%x:%x", s.ID, next)
		if line, err = record.AppendJSON(line[:0], r); err != nil {
			return err
		}
		_, err = out.Write(append(line, '\n'))
		return err
	}, func(d spoollog.Damage) {
		fmt.Fprintf(p.Stderr, "%s: %d damaged records skipped\n", terminal.Line(d.Path), d.Records)
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

func truncateCommand(p *Program) *ffcli.Command {
	flags := NewFlags("truncate")
	older := flags.Duration("older-than", 0, "minimum age of the last record of a removed segment, such as 24h")
	all := flags.Bool("all", false, "remove everything")
	asJSON := jsonFlag(flags)
	return &ffcli.Command{
		Name:       "truncate",
		ShortUsage: "conduit spool truncate DIRECTORY (--older-than AGE | --all)",
		ShortHelp:  "Remove old records from a spool, read or not.",
		LongHelp: `Removes whole segments. Stop the agent first, or the pipelines that use the spool.

Example:
  conduit spool truncate spool --older-than 72h`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			args, err := Positional(flags, args, 1)
			if err != nil {
				return err
			}
			if len(args) == 0 || (*older > 0) == *all {
				return Invalidf("truncate needs the directory of a spool, and either --older-than AGE or --all")
			}
			var before time.Time
			if !*all {
				before = time.Now().Add(-*older)
			}
			records, bytes, err := spoollog.Truncate(args[0], before)
			if err != nil && records == 0 {
				return err
			}
			if *asJSON {
				return errors.Join(err, p.WriteJSON(map[string]any{"records": records, "bytes": bytes}))
			}
			fmt.Fprintf(p.Stdout, "removed %d records, %d bytes\n", records, bytes)
			return err
		},
	}
}
