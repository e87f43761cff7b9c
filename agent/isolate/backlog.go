package isolate

import (
	"fmt"
	"math"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// Backlog describes the records that wait in the log; ok is false while the destination is not open or has no log any
// more. It may be called at any time.
func (d *Destination) Backlog() (b spec.Backlog, ok bool) {
	if !d.opened.Load() || d.Limits == nil && !d.feeder.draining() {
		return b, false
	}
	d.noteRoom()
	b.Records, b.Bytes = d.waiting()
	if b.Records == 0 {
		b.Bytes = 0
	} else if at := d.waitsSince(); !at.IsZero() {
		b.Seconds = max(0, time.Since(at).Seconds())
	}
	b.Dropped = d.log.Counts().Dropped
	if d.Limits != nil {
		b.Limit = d.Limits.Bytes
	}
	d.mu.Lock()
	if !d.fullAt.IsZero() {
		b.Full = d.Limits.Policy()
	}
	d.mu.Unlock()
	d.feeder.describe(&b)
	b.Text = textOf(&b)
	return b, true
}

// waiting returns the number of records that the real destination has not received, and about how many bytes they take.
func (d *Destination) waiting() (records uint64, bytes int64) {
	s := d.log.Stats()
	records = d.reader.Behind()
	return records, int64(float64(s.Bytes) * float64(records) / float64(max(1, s.Records)))
}

// describe sets the state of the real destination.
func (f *feeder) describe(b *spec.Backlog) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b.State = f.state
	if f.err == nil {
		return
	}
	b.Error = f.text()
	since := f.since
	b.Since = &since
	if f.state == spec.BacklogRetrying {
		at := f.retryAt
		b.RetryAt = &at
	}
}

// Failure implements engine.Isolated.
func (d *Destination) Failure() *measure.Report {
	if !d.opened.Load() {
		return nil
	}
	f := d.feeder
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return nil
	}
	return &measure.Report{Text: f.text(), First: f.since, Last: time.Now(), Count: f.failures}
}

// Held implements engine.Isolated.
func (d *Destination) Held() time.Time {
	if !d.opened.Load() {
		return time.Time{}
	}
	d.feeder.mu.Lock()
	a := d.feeder.attempt
	d.feeder.mu.Unlock()
	if a == nil {
		return time.Time{}
	}
	return a.held()
}

// text returns the text of the error, without secrets.
func (f *feeder) text() string {
	if f.Redact != nil {
		return f.Redact(f.err.Error())
	}
	return f.err.Error()
}

// waitsSince returns when the oldest record was appended that the real destination has not received; zero if that is
// unknown.
func (d *Destination) waitsSince() time.Time {
	low := d.reader.Low()
	d.mu.Lock()
	at, oldest := d.oldestAt, d.oldest
	d.mu.Unlock()
	if at == low && !oldest.IsZero() {
		return oldest
	}
	c := d.log.Cursor(low)
	defer c.Close()
	c.Bound(1, nil) // one frame
	if records, _, _ := c.Read(math.MaxUint64); len(records) == 0 {
		return time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.oldestAt, d.oldest = low, c.Time()
	return d.oldest
}

// remove removes the log, whose records have all been received.
func (d *Destination) remove() error {
	d.detach()
	err := d.release()
	if err == nil {
		err = d.Logs.Remove(d.Pipeline, connectorOf(d.Pipeline, d.ID))
	}
	if err != nil {
		return fmt.Errorf("cannot remove the log of the destination %s, which is no longer isolated: %w", d.ID, err)
	}
	d.Log.Info("the destination has received all records of the log, which is removed: it is no longer isolated",
		"connector", d.ID)
	return nil
}

// textOf describes a backlog for people, without the error.
func textOf(b *spec.Backlog) string {
	waits := fmt.Sprintf("%d records wait", b.Records)
	if b.Records == 1 {
		waits = "1 record waits"
	}
	text := fmt.Sprintf("%s, %s (%d bytes", b.State, waits, b.Bytes)
	if b.Limit > 0 {
		text += fmt.Sprintf(" of %d", b.Limit)
	}
	if b.Records > 0 {
		text += ", the oldest for " + (time.Duration(b.Seconds) * time.Second).String()
	}
	text += ")"
	if b.Full != "" {
		text += ", its log is full: " + string(b.Full)
	}
	if b.Dropped > 0 {
		text += fmt.Sprintf(", %d dropped", b.Dropped)
	}
	return text
}
