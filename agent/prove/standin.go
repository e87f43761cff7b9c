package prove

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// standIn is the name of the executable that replaces outside systems.
const standIn = "conduit-stand-in"

// IsStandIn reports whether this process was started as a connector that replaces an outside system. It must then call
// Serve, and nothing else.
func IsStandIn() bool { return filepath.Base(os.Args[0]) == standIn }

// Serve is the stand-in: a connector executable.
func Serve() {
	wire.Serve(sdk.Connector{
		Name:           standIn,
		Summary:        "Takes the place of an outside system, and keeps a ledger.",
		Version:        "v1.0.0",
		Author:         "conduit",
		NewSource:      func() sdk.Source { return &source{} },
		NewDestination: func() sdk.Destination { return &destination{} },
	})
}

// Metadata keys of the records of stand-ins: their source, and their number.
const (
	keySource = "prove.source"
	keyNumber = "prove.number"
)

type sourceSettings struct {
	// Path of the ledger.
	Ledger string `json:"ledger" validate:"required"`
	// Qualified id of the source.
	ID string `json:"id" validate:"required"`
	// Records per second.
	Rate float64 `json:"rate" default:"1000" validate:"gt=0"`
	// Has no effect. When it changes, the agent exchanges the connector.
	Note string `json:"note"`
}

// source reads numbered records at a given rate. Like a system that forgets acknowledged records, it objects if it
// must read them again.
type source struct {
	sdk.SourceBase

	settings sourceSettings
	ledger   *os.File // the number of the last record that was acknowledged
	next     int64
	acked    int64 // owned by Ack: the last number of this run
	began    time.Time
	sent     int64
}

// Parameters describes the settings.
func (s *source) Parameters() sdk.Parameters { return sdk.Described(sourceSettings{}, descriptions) }

// Configure keeps the settings.
func (s *source) Configure(_ context.Context, values map[string]string) error {
	return sdk.Decode(values, &s.settings)
}

// Open continues after pos.
func (s *source) Open(_ context.Context, pos record.Position) (err error) {
	var last int64
	if len(pos) > 0 {
		if last, err = strconv.ParseInt(string(pos), 10, 64); err != nil {
			return fmt.Errorf("cannot resume: %w", err)
		}
	}
	acked, err := readAcked(s.settings.Ledger)
	if err != nil {
		return err
	}
	if last < acked {
		if err := s.object("resumed at %d, although %d was acknowledged", last, acked); err != nil {
			return err
		}
	}
	if s.ledger, err = os.OpenFile(s.settings.Ledger, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fmt.Errorf("cannot open the ledger: %w", err)
	}
	s.next, s.acked, s.began = last+1, last, time.Now()
	return nil
}

// object records a broken promise of the agent.
func (s *source) object(format string, args ...any) error {
	f, err := os.OpenFile(s.settings.Ledger+objections, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the ledger: %w", err)
	}
	_, err = fmt.Fprintf(f, "source %s "+format+"\n", append([]any{s.settings.ID}, args...)...)
	return errors.Join(err, f.Sync(), f.Close())
}

const (
	tick    = 5 * time.Millisecond
	maxRead = 256
)

// Read returns the records that are due.
func (s *source) Read(ctx context.Context) ([]record.Record, error) {
	for {
		due := int64(time.Since(s.began).Seconds()*s.settings.Rate) - s.sent
		if due > 0 {
			records := s.make(min(due, maxRead))
			s.sent += int64(len(records))
			if due > maxRead { // it does not catch up after a pause
				s.sent, s.began = 0, time.Now()
			}
			return records, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(tick):
		}
	}
}

func (s *source) make(n int64) []record.Record {
	records := make([]record.Record, n)
	for i := range records {
		records[i] = numbered(s.settings.ID, s.next)
		s.next++
	}
	return records
}

// numbered returns the record with a number.
func numbered(source string, n int64) record.Record {
	text := strconv.FormatInt(n, 10)
	return record.Record{
		Position:  record.Position(text),
		Operation: record.OperationCreate,
		Metadata:  record.Metadata{{Key: keyNumber, Value: text}, {Key: keySource, Value: source}},
		Key:       record.Raw([]byte(text)),
		After:     record.Structured(map[string]any{"number": n, "text": "record " + text}),
	}
}

// Ack records the last number. It objects if the numbers are not consecutive.
func (s *source) Ack(_ context.Context, positions []record.Position) error {
	for _, p := range positions {
		n, err := strconv.ParseInt(string(p), 10, 64)
		if err != nil {
			return fmt.Errorf("cannot acknowledge: %w", err)
		}
		if n != s.acked+1 {
			if err := s.object("was acknowledged %d after %d", n, s.acked); err != nil {
				return err
			}
		}
		s.acked = n
	}
	if _, err := s.ledger.WriteAt(fmt.Appendf(nil, "%020d\n", s.acked), 0); err != nil {
		return fmt.Errorf("cannot write the ledger: %w", err)
	}
	return s.ledger.Sync()
}

// Teardown closes the ledger.
func (s *source) Teardown(context.Context) error {
	if s.ledger == nil {
		return nil
	}
	return s.ledger.Close()
}

type destinationSettings struct {
	// Path of the ledger.
	Ledger string `json:"ledger" validate:"required"`
	// How to break the promise: lose, double or reorder a record now and then.
	Sabotage string `json:"sabotage"`
	// Has no effect. When it changes, the agent exchanges the connector.
	Note string `json:"note"`
}

// destination writes records to its ledger, and syncs it to disk before it returns.
type destination struct {
	sdk.DestinationBase

	settings destinationSettings
	ledger   *os.File
	lines    []byte
	written  int
}

// Parameters describes the settings.
func (d *destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions)
}

// Configure keeps the settings.
func (d *destination) Configure(_ context.Context, values map[string]string) error {
	return sdk.Decode(values, &d.settings)
}

// Open removes a torn line after a crash, whose record was never acknowledged.
func (d *destination) Open(context.Context) (err error) {
	if d.ledger, err = os.OpenFile(d.settings.Ledger, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("cannot open the ledger: %w", err)
	}
	size, err := d.ledger.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	tail := make([]byte, min(size, 4096))
	if _, err := d.ledger.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	torn := len(tail) - 1 - bytes.LastIndexByte(tail, '\n')
	return d.ledger.Truncate(size - int64(torn))
}

// Write records the source and the number of each record.
func (d *destination) Write(_ context.Context, records []record.Record) (int, error) {
	d.lines = d.lines[:0]
	for i := range records {
		d.note(&records[i])
	}
	if _, err := d.ledger.Write(d.lines); err != nil {
		return 0, sdk.Unavailable(err)
	}
	if err := d.ledger.Sync(); err != nil {
		return 0, sdk.Unavailable(err)
	}
	return len(records), nil
}

// sabotaged is the number of records written correctly before one that is not, if a test requests it.
const sabotaged = 10

func (d *destination) note(r *record.Record) {
	from := r.Metadata.Get(keySource)
	number := r.Metadata.Get(keyNumber)
	line := from + " " + number + "\n"
	d.written++
	if d.written%sabotaged > 0 || d.settings.Sabotage == "" {
		d.lines = append(d.lines, line...)
		return
	}
	switch d.settings.Sabotage {
	case "double":
		d.lines = append(d.lines, strings.Repeat(line, 2)...)
	case "reorder":
		last := bytes.LastIndexByte(bytes.TrimSuffix(d.lines, []byte("\n")), '\n') + 1
		d.lines = append(append(append([]byte{}, d.lines[:last]...), line...), d.lines[last:]...)
	}
}

// Teardown closes the ledger.
func (d *destination) Teardown(context.Context) error {
	if d.ledger == nil {
		return nil
	}
	return d.ledger.Close()
}
