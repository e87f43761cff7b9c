package spool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/spoollog"
)

const (
	positionBytes = 34 // maximum size of a position without gaps
	gapBytes      = 34 // additional maximum size for each gap
	saveAfter     = time.Second
	maxGaps       = 16
	backlogAge    = 500 * time.Millisecond // older records are backlog
)

type sourceSettings struct {
	// Directory of the spool, which is created if it does not exist.
	Path string `json:"path" literal:"true" validate:"required"`
	// oldest-first: records come in order. newest-first: new records come before waiting ones.
	Order string `json:"order" default:"oldest-first" validate:"inclusion=oldest-first|newest-first"`
}

// Source reads a spool. The connector's id is the name of the reader. Until the connector is deleted, the spool keeps
// records that this reader has not acknowledged, also while the source is stopped.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	log      *spoollog.Log
	release  func() error
	reader   *spoollog.Reader
	detach   func()

	place   place            // place after the last Read
	newest  *spoollog.Cursor // starts at place.next
	backlog *spoollog.Cursor // in the last gap; nil when no backlog is being read
	window  window
	skips   progress.Skips // safe for concurrent use

	saving sync.Mutex
	saver  *time.Timer // guarded by saving: saves the reader's offset
}

// Parameters returns the descriptions of the settings.
func (s *Source) Parameters() sdk.Parameters { return sdk.Described(sourceSettings{}, descriptions) }

// Configure validates and stores the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) error {
	s.settings = sourceSettings{}
	if err := sdk.Decode(values, &s.settings); err != nil {
		return err
	}
	return sdk.CheckPath(ctx, "path", s.settings.Path)
}

// LifecycleOnDeleted removes the reader, so that the spool keeps no more records for it. It does not change a spool
// whose path is no longer allowed.
func (s *Source) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	if err := sdk.CheckPath(ctx, "path", settings["path"]); err != nil {
		sdk.Logger(ctx).Warn("the spool keeps retaining records for a deleted source", "reader", readerName(ctx),
			"err", err)
		return nil
	}
	log, release, err := share(ctx, settings["path"])
	if err != nil {
		return err
	}
	return errors.Join(log.RemoveReader(readerName(ctx)), release())
}

// LifecycleOnUpdated removes the reader from the previous spool.
func (s *Source) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	if before["path"] == after["path"] {
		return nil
	}
	return s.LifecycleOnDeleted(ctx, before)
}

func readerName(ctx context.Context) string { return sdk.EnvFrom(ctx).ConnectorID }

// Open opens the spool. After the directory was emptied it contains a different log. A position of the earlier log then
// means the oldest record.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	var p place
	if len(pos) > 0 {
		if p, err = parsePosition(pos); err != nil {
			return err
		}
	}
	if s.log, s.release, err = share(ctx, s.settings.Path); err != nil {
		return sdk.Unavailable(err)
	}
	if s.reader, err = s.log.Reader(readerName(ctx)); err != nil {
		return sdk.Unavailable(err)
	}
	s.detach = s.reader.Attach()
	if p.id != s.log.ID() {
		if len(pos) > 0 {
			sdk.Logger(ctx).Warn("this is not the spool that was read before: reading starts with its oldest record",
				"path", s.settings.Path)
		}
		p = place{id: s.log.ID()}
	}
	s.place = p
	s.newest = s.log.Cursor(p.next)
	return nil
}

// Read waits for records and returns the next ones.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	for {
		records, err := s.readNewest(ctx)
		if err == nil && len(records) == 0 {
			records, err = s.readBacklog(ctx)
		}
		if len(records) > 0 {
			return records, nil // the next Read returns the error again
		}
		if err != nil {
			return nil, sdk.Unavailable(err)
		}
		if len(s.place.gaps) > 0 { // there is a backlog, which may not be sent yet
			sdk.Stalled(ctx)
		}
		if err := s.window.wait(ctx, s.newest); err != nil {
			return nil, err
		}
	}
}

// readNewest returns the records after all read ones. In the order newest-first, records that have waited become a gap.
func (s *Source) readNewest(ctx context.Context) ([]record.Record, error) {
	if s.settings.Order == "oldest-first" && len(s.place.gaps) > 0 {
		return nil, nil // the gaps come first
	}
	for {
		from := s.newest.Next()
		bound(ctx, s.newest)
		records, offsets, err := s.newest.Read(math.MaxUint64)
		if len(records) == 0 {
			return nil, err
		}
		if s.settings.Order == "newest-first" && time.Since(s.newest.Time()) > backlogAge &&
			len(s.place.gaps) < maxGaps {
			_, end := s.log.Bounds()
			s.place.gaps = append(s.place.gaps, gap{from, max(end, s.newest.Next())})
			s.place.next = max(end, s.newest.Next())
			s.newest.Close()
			s.newest = s.log.Cursor(s.place.next)
			s.leaveBacklog() // the new gap is newer
			continue
		}
		s.position(records, offsets, &s.place.next)
		s.window.sent(len(records), false)
		return records, nil
	}
}

// readBacklog returns records of the next gap. In the order newest-first it respects the window.
func (s *Source) readBacklog(ctx context.Context) ([]record.Record, error) {
	for len(s.place.gaps) > 0 {
		i, most := 0, uint64(math.MaxInt64)
		if s.settings.Order == "newest-first" {
			i, most = len(s.place.gaps)-1, uint64(s.window.free())
		}
		if most == 0 {
			return nil, nil
		}
		g := &s.place.gaps[i]
		if s.backlog == nil {
			s.backlog = s.log.Cursor(g.from)
		}
		end := min(g.to, s.backlog.Next()+most)
		bound(ctx, s.backlog)
		records, offsets, err := s.backlog.Read(end)
		if len(records) > 0 {
			s.position(records, offsets, &g.from)
			s.window.sent(len(records), true)
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		if g.from = s.backlog.Next(); g.from >= g.to || end == g.to { // the gap is empty
			s.place.gaps = slices.Delete(s.place.gaps, i, i+1)
			s.leaveBacklog()
		}
	}
	return nil, nil
}

// bound limits the reads of a cursor to the available memory of the host. For a large record it reserves twice the size
// of a frame: for the frame, and for the bytes read after it.
func bound(ctx context.Context, c *spoollog.Cursor) {
	c.Bound(sdk.BatchBytes(ctx, math.MaxInt), func(n int) error { return sdk.Reserve(ctx, 2*n) })
}

func (s *Source) leaveBacklog() {
	if s.backlog != nil {
		s.backlog.Close()
		s.backlog = nil
	}
}

// position sets the positions of the records. They share one array. at is the field of the place that advances with
// each record.
func (s *Source) position(records []record.Record, offsets []uint64, at *uint64) {
	text := make([]byte, 0, len(records)*(positionBytes+gapBytes*len(s.place.gaps)))
	for i := range records {
		start := len(text)
		*at = offsets[i] + 1
		text = s.place.append(text)
		records[i].Position = text[start:len(text):len(text)]
	}
}

// Ack acknowledges the records. The spool removes records that every reader has acknowledged.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	s.window.acked(len(positions))
	p, err := parsePosition(positions[len(positions)-1])
	if err != nil {
		return err
	}
	if err := s.reader.Acknowledge(p.low()); err != nil {
		return err
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.saver == nil {
		s.saver = time.AfterFunc(saveAfter, s.save)
	}
	return nil
}

// save saves the reader's offset for commands that inspect the directory.
func (s *Source) save() {
	s.saving.Lock()
	s.saver = nil
	s.saving.Unlock()
	s.reader.Save()
}

// Teardown releases the spool.
func (s *Source) Teardown(context.Context) error {
	if s.newest != nil {
		s.newest.Close()
	}
	s.leaveBacklog()
	s.saving.Lock()
	if s.saver != nil {
		s.saver.Stop()
	}
	s.saving.Unlock()
	if s.detach != nil {
		s.detach()
	}
	if s.release == nil {
		return nil
	}
	return s.release()
}

// Progress implements sdk.Reporter.
func (s *Source) Progress() progress.Report {
	behind, counts := int64(s.reader.Behind()), s.log.Counts()
	report := progress.Report{Records: &behind, At: time.Now()}
	var warnings []string
	if counts.Dropped > 0 {
		warnings = append(warnings, fmt.Sprintf("%d records were dropped because the spool was full", counts.Dropped))
		s.skips.Add("records that were dropped", fmt.Errorf("%d, because the spool was full", counts.Dropped))
	}
	if counts.Damaged > 0 {
		warnings = append(warnings, fmt.Sprintf("%d records of the spool were damaged", counts.Damaged))
		s.skips.Add("records that were damaged", fmt.Errorf("%d could not be read", counts.Damaged))
	}
	report.Warning = strings.Join(warnings, "; ")
	report.Skipped = s.skips.List()
	return report
}
