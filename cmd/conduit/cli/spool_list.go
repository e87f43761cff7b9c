package cli

import (
	"fmt"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// listing is the content of a spool. Offsets are in hexadecimal, as in positions.
type listing struct {
	Records  uint64    `json:"records"`
	Bytes    int64     `json:"bytes"`
	Segments []segment `json:"segments"`
	Readers  []reader  `json:"readers"`
}

type segment struct {
	First   string    `json:"first"`
	Records uint64    `json:"records"`
	Bytes   int64     `json:"bytes"`
	Written time.Time `json:"written"`
	Path    string    `json:"path"`
}

type reader struct {
	Name   string `json:"name"`
	Next   string `json:"next"`
	Behind uint64 `json:"behind"`
}

func spoolListCommand(p *Program) *ffcli.Command {
	flags := NewFlags("ls")
	asJSON := jsonFlag(flags)
	return spool(p, "ls", "List the segments and readers of a spool.", "", flags, func(p *Program, dir string) error {
		l, err := list(dir)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return p.WriteJSON(l)
		}
		return l.write(p)
	})
}

func list(dir string) (*listing, error) {
	s, err := spoollog.Inspect(dir)
	if err != nil {
		return nil, err
	}
	l := &listing{Segments: []segment{}, Readers: []reader{}}
	for _, g := range s.Segments {
		one := segment{First: fmt.Sprintf("%x", g.First), Records: g.End - g.First, Bytes: g.Bytes,
			Written: g.Written.UTC(), Path: g.Path}
		l.Segments = append(l.Segments, one)
		l.Records, l.Bytes = l.Records+one.Records, l.Bytes+one.Bytes
	}
	for _, r := range s.Readers {
		l.Readers = append(l.Readers, reader{Name: r.Name, Next: fmt.Sprintf("%x", r.Next), Behind: r.Behind})
	}
	return l, nil
}

func (l *listing) write(p *Program) error {
	var segments, readers terminal.Table
	segments.Add("FIRST", "RECORDS", "BYTES", "WRITTEN", "FILE")
	for _, g := range l.Segments {
		segments.Add(g.First, g.Records, g.Bytes, g.Written.Format(time.RFC3339), g.Path)
	}
	if err := segments.Write(p.Stdout, p.Paint); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "\n%d records, %d bytes, %d segments\n", l.Records, l.Bytes, len(l.Segments))
	if len(l.Readers) == 0 {
		_, err := fmt.Fprintln(p.Stdout, "no readers: all segments are kept")
		return err
	}
	fmt.Fprintln(p.Stdout)
	readers.Add("READER", "NEXT", "BEHIND")
	for _, r := range l.Readers {
		readers.Add(r.Name, r.Next, r.Behind)
	}
	return readers.Write(p.Stdout, p.Paint)
}
