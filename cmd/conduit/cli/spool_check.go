package cli

import (
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// checked is the part of a spool that was read.
type checked struct {
	Records int      `json:"records"` // valid records
	Damaged []damage `json:"damaged"`
}

type damage struct {
	Path    string `json:"path"`
	Records uint64 `json:"records"`
	Bytes   int64  `json:"bytes"`
}

func spoolCheckCommand(p *Program) *ffcli.Command {
	flags := NewFlags("check")
	asJSON := jsonFlag(flags)
	return spool(p, "check", "Verify all records of a spool.",
		"The command changes nothing, and fails when a record is damaged.", flags,
		func(p *Program, dir string) error { return checkSpool(p, dir, *asJSON) })
}

func checkSpool(p *Program, dir string, asJSON bool) error {
	c, lost := checked{Damaged: []damage{}}, uint64(0)
	err := spoollog.Walk(dir, func(uint64, *record.Record) error { c.Records++; return nil }, func(d spoollog.Damage) {
		if !asJSON {
			fmt.Fprintf(p.Stdout, "%s: %d records are damaged, in %d bytes\n", terminal.Line(d.Path), d.Records,
				d.Bytes)
		}
		c.Damaged, lost = append(c.Damaged, damage(d)), lost+d.Records
	})
	if err != nil {
		return err
	}
	if asJSON {
		if err := p.WriteJSON(c); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.Stdout, "%d records are good\n", c.Records)
	}
	if len(c.Damaged) > 0 {
		return fmt.Errorf("%d records are damaged, in %d places: readers skip them", lost, len(c.Damaged))
	}
	return nil
}
