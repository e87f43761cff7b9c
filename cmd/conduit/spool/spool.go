// Package spool has the commands 'conduit spool ...'.
package spool

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// Command returns 'conduit spool' and the commands below it.
func Command(p *cli.Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "spool",
		ShortUsage: "conduit spool COMMAND DIRECTORY [flags]",
		ShortHelp:  "See what is in a spool, check it, print it, or remove what is old.",
		LongHelp: `A spool is the directory that the connector "spool" writes to. All commands but truncate work
while an agent uses it.`,
		Subcommands: []*ffcli.Command{
			spool(p, "ls", "List the segments and readers of a spool.", "", listSpool),
			spool(p, "check", "Read everything in a spool, and say what is damaged.",
				"It changes nothing, and fails when something is damaged.", checkSpool),
			spool(p, "export", "Print the records of a spool, one JSON object per line.",
				"What is damaged is skipped, and named on stderr.", exportSpool),
			truncateCommand(p),
		},
	})
}

// spool makes a command about the spool in one directory.
func spool(p *cli.Program, name, short, long string, do func(p *cli.Program, dir string) error) *ffcli.Command {
	flags := cli.NewFlags(name)
	return &ffcli.Command{
		Name:       name,
		ShortUsage: "conduit spool " + name + " DIRECTORY",
		ShortHelp:  short,
		LongHelp:   long,
		FlagSet:    flags,
		Exec: func(_ context.Context, args []string) error {
			dir, err := cli.Argument(flags, args, "%s needs the directory of a spool: conduit spool %s DIRECTORY", name, name)
			if err != nil {
				return err
			}
			return do(p, dir)
		},
	}
}

func listSpool(p *cli.Program, dir string) error {
	s, err := spoollog.Inspect(dir)
	if err != nil {
		return err
	}
	var segments, readers terminal.Table
	segments.Add("FIRST", "RECORDS", "BYTES", "WRITTEN", "FILE")
	records, bytes := uint64(0), int64(0)
	for _, g := range s.Segments {
		segments.Add(fmt.Sprintf("%x", g.First), g.End-g.First, g.Bytes, g.Written.UTC().Format(time.RFC3339), g.Path)
		records, bytes = records+g.End-g.First, bytes+g.Bytes
	}
	if err := segments.Write(p.Stdout, p.Paint); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "\n%d records, %d bytes, %d segments\n", records, bytes, len(s.Segments))
	if len(s.Readers) == 0 {
		_, err = fmt.Fprintln(p.Stdout, "no readers: everything is kept")
		return err
	}
	fmt.Fprintln(p.Stdout)
	readers.Add("READER", "NEXT", "BEHIND")
	for _, r := range s.Readers {
		readers.Add(r.Name, fmt.Sprintf("%x", r.Next), r.Behind)
	}
	return readers.Write(p.Stdout, p.Paint)
}

func checkSpool(p *cli.Program, dir string) error {
	records, lost, places := 0, uint64(0), 0
	err := spoollog.Walk(dir, func(uint64, *record.Record) error { records++; return nil }, func(d spoollog.Damage) {
		fmt.Fprintf(p.Stdout, "%s: %d records are damaged, in %d bytes\n", d.Path, d.Records, d.Bytes)
		lost, places = lost+d.Records, places+1
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "%d records are good\n", records)
	if places > 0 {
		return fmt.Errorf("%d records are damaged, in %d places: readers skip them", lost, places)
	}
	return nil
}

func exportSpool(p *cli.Program, dir string) error {
	s, err := spoollog.Inspect(dir)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(p.Stdout)
	var line []byte
	err = spoollog.Walk(dir, func(next uint64, r *record.Record) (err error) {
		r.Position = fmt.Appendf(nil, "%x:%x", s.ID, next)
		if line, err = record.AppendJSON(line[:0], r); err != nil {
			return err
		}
		_, err = out.Write(append(line, '\n'))
		return err
	}, func(d spoollog.Damage) {
		fmt.Fprintf(p.Stderr, "%s: %d records are damaged and left out\n", d.Path, d.Records)
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

func truncateCommand(p *cli.Program) *ffcli.Command {
	flags := cli.NewFlags("truncate")
	older := flags.Duration("older-than", 0, "age of the last record of what is removed, such as 24h")
	all := flags.Bool("all", false, "remove everything")
	return &ffcli.Command{
		Name:       "truncate",
		ShortUsage: "conduit spool truncate DIRECTORY (--older-than AGE | --all)",
		ShortHelp:  "Remove old records from a spool, read or not.",
		LongHelp: `Removes whole segments. Stop the agent first, or the pipelines that use the spool.

Example:
  conduit spool truncate spool --older-than 72h`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			args, err := cli.Positional(flags, args, 1)
			if err != nil {
				return err
			}
			if len(args) == 0 || (*older > 0) == *all {
				return cli.Invalidf("truncate needs the directory of a spool, and either --older-than AGE or --all")
			}
			var before time.Time
			if !*all {
				before = time.Now().Add(-*older)
			}
			records, bytes, err := spoollog.Truncate(args[0], before)
			if err == nil || records > 0 {
				fmt.Fprintf(p.Stdout, "removed %d records, %d bytes\n", records, bytes)
			}
			return err
		},
	}
}
