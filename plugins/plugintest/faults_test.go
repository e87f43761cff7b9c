package plugintest_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// fault turns a good connector into a bad one. A nil function changes nothing.
type fault struct {
	found string // by this check
	says  string // part of the error

	connector func(*sdk.Connector)
	source    func(*counter)
	write     func(d *lines, records []record.Record) (int, error)
}

var faults = map[string]fault{
	"none": {},
	"no version": {found: "specification", says: `version ""`,
		connector: func(c *sdk.Connector) { c.Version = "" }},
	"number as version": {found: "specification", says: `version "1.0"`,
		connector: func(c *sdk.Connector) { c.Version = "1.0" }},
	"parameters without description": {found: "specification", says: `"count" has no description`,
		source: func(s *counter) { s.parameters = sdk.Parameters{"count": {Type: sdk.TypeInt}} }},
	"default of the wrong type": {found: "specification", says: `"count": must be`,
		source: func(s *counter) {
			s.parameters = sdk.Parameters{"count": {Type: sdk.TypeInt, Description: "d", Default: "x"}}
		}},
	"takes anything": {found: "source/settings", says: `takes plugintest.unknown = "x"`,
		source: func(s *counter) { s.parameters["*.*"] = sdk.Parameter{Type: sdk.TypeString, Description: "any"} }},
	"lifecycle fails": {found: "source/lifecycle", says: "LifecycleOnDeleted of a connector that is not configured",
		source: func(s *counter) { s.deleted = errors.New("not configured") }},
	"positions twice": {found: "source/records", says: "the same position",
		source: func(s *counter) { s.position = func(n int) string { return strconv.Itoa(n / 2) } }},
	"no data": {found: "source/records", says: "neither key nor payload",
		source: func(s *counter) { s.empty = true }},
	"begins again": {found: "source/resume at every position", says: "after resuming behind record",
		source: func(s *counter) { s.resume = func(int) int { return 0 } }},
	"skips": {found: "source/resume at every position", says: "after resuming behind record",
		source: func(s *counter) { s.resume = func(n int) int { return n + 1 } }},
	"skips after a crash": {found: "source/crash and resume", says: "after a crash",
		source: func(s *counter) { s.resume = func(n int) int { return n + 1 } }},
	"ignores positions it does not know": {found: "source/unknown position", says: "reads records",
		source: func(s *counter) { s.lenient = true }},
	"waits for acknowledgements": {found: "source/acknowledgements late", says: "Ack of",
		source: func(s *counter) { s.ackErr = errors.New("no") }},
	"does not stop": {found: "source/stop while waiting", says: "Read after Stop",
		source: func(s *counter) { s.deaf = true }},
	"loses what is held": {found: "destination/write", says: "the destination holds",
		write: func(d *lines, records []record.Record) (int, error) {
			_, err := d.append(records[:len(records)-1])
			return len(records), err
		}},
	"out of order": {found: "destination/write", says: "the destination holds",
		write: func(d *lines, records []record.Record) (int, error) {
			swapped := append(records[1:len(records):len(records)], records[0])
			return d.append(swapped)
		}},
	"fails for strange records": {found: "destination/strange records", says: "the records around it are refused",
		write: func(d *lines, records []record.Record) (int, error) {
			for _, r := range records {
				if len(r.Metadata) == 0 {
					d.stuck = true
				}
			}
			if d.stuck {
				return 0, errors.New("cannot go on")
			}
			return d.append(records)
		}},
	"settles before it writes": {found: "destination/crash", says: "the destination settled",
		write: func(d *lines, records []record.Record) (int, error) {
			if d.held = append(d.held, records...); len(d.held) > 15 {
				_, err := d.append(d.held)
				d.held = nil
				return len(records), err
			}
			return len(records), nil
		}},
}

// faulty returns a target with the fault.
func faulty(f fault) plugintest.Target {
	c := sdk.Connector{Name: "faulty", Summary: "Has a fault.", Version: "v1.0.0", Author: "us",
		NewSource: func() sdk.Source {
			s := &counter{parameters: sdk.Parameters{"count": {Type: sdk.TypeInt, Description: "How many.",
				Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}}}}
			if f.source != nil {
				f.source(s)
			}
			return s
		},
		NewDestination: func() sdk.Destination { return &lines{write: f.write} },
	}
	if f.connector != nil {
		f.connector(&c)
	}
	timeout := 500 * time.Millisecond // waited for where an event never happens
	switch f.found {
	case "":
		timeout = 20 * time.Second
	case "source/stop while waiting": // every wait of this check ends late
		timeout = 50 * time.Millisecond
	}
	return plugintest.Target{Connector: c, Timeout: timeout, Destination: newFile, Written: payloadsIn,
		Source: func(_ testing.TB, n int) map[string]string { return map[string]string{"count": strconv.Itoa(n)} }}
}

// counter counts from 1 to count.
type counter struct {
	sdk.SourceBase
	count, at int

	parameters sdk.Parameters
	position   func(int) string
	resume     func(int) int
	empty      bool
	lenient    bool
	deaf       bool
	deleted    error
	ackErr     error
}

func (s *counter) Parameters() sdk.Parameters { return s.parameters }

func (s *counter) Configure(_ context.Context, settings map[string]string) (err error) {
	s.count, err = strconv.Atoi(settings["count"])
	return err
}

func (s *counter) Open(_ context.Context, pos record.Position) (err error) {
	if len(pos) == 0 {
		return nil
	}
	if s.at, err = strconv.Atoi(string(pos)); s.lenient {
		err = nil
	}
	if s.resume != nil {
		s.at = s.resume(s.at)
	}
	return err
}

func (s *counter) Read(ctx context.Context) ([]record.Record, error) {
	if s.at >= s.count {
		if s.deaf {
			select {}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.at++
	r := record.Record{Position: record.Position(strconv.Itoa(s.at)), Operation: record.OperationCreate,
		Key: record.Raw([]byte("k"))}
	if s.position != nil {
		r.Position = record.Position(s.position(s.at))
	}
	if s.empty {
		r.Key = record.Data{}
	}
	return []record.Record{r}, nil
}

func (s *counter) Ack(context.Context, []record.Position) error { return s.ackErr }

func (s *counter) LifecycleOnDeleted(context.Context, map[string]string) error { return s.deleted }

// lines appends records to a file.
type lines struct {
	sdk.DestinationBase
	path  string
	write func(*lines, []record.Record) (int, error)
	held  []record.Record
	stuck bool
}

func (d *lines) Parameters() sdk.Parameters {
	return sdk.Parameters{"path": {Type: sdk.TypeFile, Description: "File.",
		Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}}}
}

func (d *lines) Configure(_ context.Context, settings map[string]string) error {
	d.path = settings["path"]
	return nil
}

func (d *lines) Open(context.Context) error { return nil }

func (d *lines) Write(_ context.Context, records []record.Record) (int, error) {
	if d.write != nil {
		return d.write(d, records)
	}
	return d.append(records)
}

func (d *lines) append(records []record.Record) (int, error) {
	f, err := os.OpenFile(d.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	encoder := json.NewEncoder(f)
	for i, r := range records {
		if err := encoder.Encode(r); err != nil {
			return i, err
		}
	}
	return len(records), nil
}
