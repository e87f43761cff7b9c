package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	fileSettings

	// Tables to read. * selects all, including future tables.
	Tables []string `json:"tables" literal:"true" default:"*" validate:"required"`
	// initial: first existing rows, then changes. never: only changes from now on.
	SnapshotMode string `json:"snapshotMode" default:"initial" validate:"inclusion=initial|never"`
	// Tables to read completely again: table/word; a new word starts another snapshot. Changes continue meanwhile.
	Again []string `json:"snapshot.again"`
	// Table to which triggers write changes, used by this source only. It is created, with others whose names have it
	// as a prefix.
	Changes string `json:"changes.table" default:"conduit_changes" validate:"regex=^[A-Za-z_][A-Za-z0-9_]*$"`
	// Maximum number of changes kept in the database while the source is stopped. 0: no limit.
	Max int64 `json:"changes.max" default:"0" validate:"gt=-1"`
	// Action when changes beyond changes.max were missed. stop: the pipeline fails until the table is in
	// snapshot.again. snapshot: the table is read again.
	OnMax string `json:"changes.max-action" default:"stop" validate:"inclusion=stop|snapshot"`
	// Interval at which to check for new changes.
	Poll time.Duration `json:"poll" default:"100ms" validate:"gt=0"`
}

func (s *sourceSettings) parse(ctx context.Context, given map[string]string) error {
	if err := sdk.Decode(given, s); err != nil {
		return err
	}
	if slices.Contains(s.Tables, "*") && len(s.Tables) > 1 {
		return sdk.SettingError{Setting: "tables", Message: "* stands alone"}
	}
	wrong := func(table string) string {
		if table != "*" && strings.Contains(table, "*") {
			return "cannot have * within a name: * alone selects all tables"
		}
		return ""
	}
	sameTable := func(a, b string) bool { return strings.EqualFold(a, b) }
	if err := common.CheckItems("tables", s.Tables, wrong, sameTable); err != nil {
		return err
	}
	for _, a := range s.Again {
		if table, word, ok := cutLast(a); !ok || table == "" || word == "" {
			return sdk.SettingError{Setting: "snapshot.again",
				Message: fmt.Sprintf("must be table/word, for example orders/1, not %q", a)}
		}
	}
	return s.Check(ctx)
}

// cutLast splits an item of snapshot.again.
func cutLast(item string) (table, word string, ok bool) {
	i := strings.LastIndexByte(item, '/')
	if i < 0 {
		return "", "", false
	}
	return item[:i], item[i+1:], true
}

// capture returns the Capture for the settings.
func (s *sourceSettings) capture(ctx context.Context) *Capture {
	env := sdk.EnvFrom(ctx)
	return &Capture{Table: s.Changes, Connector: env.ConnectorID, Snapshot: s.SnapshotMode == "initial", Max: s.Max,
		Reread: s.OnMax == "snapshot", Log: env.Logger}
}

// Source reads tables and their changes.
type Source struct {
	settings sourceSettings
	log      *slog.Logger

	*common.Queue
	cancel context.CancelFunc
	done   sync.WaitGroup

	// Owned by Open until it returns, then by run.
	captured *Capture
	at       position
	whole    bool // nothing has been read: the existing rows contain every change so far
	db       *sql.DB
	conn     *sql.Conn
	info     os.FileInfo       // of the open file
	reading  progress.Snapshot // progress of the current run

	monitor monitor
}

// Parameters implements sdk.Source.
func (s *Source) Parameters() sdk.Parameters { return sdk.Described(sourceSettings{}, descriptions) }

// Configure implements sdk.Source.
func (s *Source) Configure(ctx context.Context, given map[string]string) error {
	return s.settings.parse(ctx, given)
}

// Open implements sdk.Source.
func (s *Source) Open(ctx context.Context, p record.Position) (err error) {
	if s.at, err = parsePosition(p); err != nil {
		return err
	}
	s.log, s.captured = sdk.Logger(ctx), s.settings.capture(ctx)
	if err := s.connect(ctx); err != nil {
		s.disconnect()
		return err
	}
	s.monitor.acked = s.at
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.Queue = common.NewQueue(ctx, 0)
	s.done.Go(func() { s.run(ctx) })
	return nil
}

// connect opens the database, prepares the capture, and checks that it has the changes after the position.
func (s *Source) connect(ctx context.Context) (err error) {
	if s.info, err = os.Stat(s.settings.Path); err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	if s.db, err = s.settings.Open(ctx, false); err != nil {
		return err
	}
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	if err := s.prepare(ctx, nil, s.at.DB == ""); err != nil {
		return err
	}
	last, removed, err := s.captured.Bounds(ctx, s.conn)
	if err != nil {
		return fmt.Errorf("cannot read the captured changes: %w", err)
	}
	return s.locate(last, removed)
}

// locate compares the position with the changes in the database.
func (s *Source) locate(last, removed int64) error {
	switch {
	case s.at.DB == "":
		s.at, s.whole = position{DB: s.captured.DB, ID: last}, s.captured.Snapshot
		if !s.captured.Snapshot {
			s.at.ID = removed
		}
		return nil
	case s.at.DB != s.captured.DB:
		return fmt.Errorf("the position belongs to another database than file %s: %s",
			s.settings.Path, startOver)
	case s.at.ID < removed:
		return fmt.Errorf("changes were missed: the position is after change %d, but changes up to %d have "+
			"been removed from %s: %s", s.at.ID, removed, s.settings.Changes, startOver)
	case s.at.ID > last:
		return fmt.Errorf("changes may have been missed: the position is after change %d, but the last change of the "+
			"database is %d, so it is an older copy: %s", s.at.ID, last, startOver)
	}
	return nil
}

const startOver = "to read all rows again, delete the pipeline and declare it again, or give the source a new id " +
	"and a new changes.table"

// prepare updates triggers and tables.
func (s *Source) prepare(ctx context.Context, again []string, over bool) error {
	s.monitor.set(func() { s.monitor.snapshots = nil })
	if err := s.captured.Prepare(ctx, s.conn, s.settings.Tables, again, over); err != nil {
		return err
	}
	s.leaveOut()
	return nil
}

// leaveOut reports the tables that are left out, and the tables with changes that may be missed.
func (s *Source) leaveOut() {
	var logged []string
	s.monitor.set(func() { logged, s.monitor.unique = s.monitor.unique, s.captured.Unique })
	if now := s.captured.Unique; len(now) > 0 && !slices.Equal(now, logged) {
		s.log.Warn("rows that INSERT OR REPLACE deletes because of a unique index are captured only with PRAGMA "+
			"recursive_triggers = ON", "tables", now)
	}
	for _, skip := range s.monitor.skips.List() {
		if !slices.ContainsFunc(s.captured.LeftOut, func(l LeftOut) bool { return l.Table == skip.Of }) {
			s.monitor.skips.Remove(skip.Of)
		}
	}
	for _, l := range s.captured.LeftOut {
		if s.monitor.skips.Add(l.Table, l.Err) {
			s.log.Warn("skipping a table", "table", l.Table, "err", l.Err)
		}
	}
}

func (s *Source) disconnect() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.db != nil {
		_ = s.db.Close()
	}
	s.conn, s.db = nil, nil
}

// Ack implements sdk.Source. The next poll removes the acknowledged changes.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	pos, err := parsePosition(positions[len(positions)-1])
	if err != nil {
		return err
	}
	s.monitor.set(func() { s.monitor.acked = pos })
	return nil
}

// Progress implements sdk.Reporter.
func (s *Source) Progress() progress.Report { return s.monitor.report() }

// Teardown implements sdk.Source.
func (s *Source) Teardown(context.Context) error {
	if s.cancel != nil {
		s.cancel()
		s.done.Wait()
	}
	s.disconnect()
	s.Queue.Close()
	return nil
}

// run reads until ctx ends or a permanent error occurs.
func (s *Source) run(ctx context.Context) {
	common.Repeat(ctx, func(works func()) error {
		return s.session(ctx, func() { works(); s.monitor.set(func() { s.monitor.lost = "" }) })
	}, func(err error) bool {
		if !Transient(err) {
			s.Fail(ctx, err)
			return false
		}
		s.disconnect()
		s.log.Warn("cannot read the database, retrying", "err", err)
		s.monitor.fails(err)
		return true
	})
}

// session reads until an error occurs.
func (s *Source) session(ctx context.Context, works func()) error {
	if s.conn == nil {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	seen := int64(-1) // data version when everything had been read
	for {
		version, err := s.inspect(ctx)
		if err != nil {
			return err
		}
		works()
		if version == seen {
			again, err := s.missed()
			if err != nil {
				return err
			}
			if again {
				if err := s.prepare(ctx, nil, false); err != nil {
					return err
				}
				seen = -1
			}
			s.pause(ctx)
			continue
		}
		records, all, err := s.read(ctx)
		if err != nil {
			return err
		}
		if all {
			seen = version
		}
		s.monitor.set(func() { s.monitor.current = all && len(records) == 0 || s.monitor.current && len(records) == 0 })
		if len(records) > 0 && !s.send(ctx, records) {
			return ctx.Err()
		}
	}
}

// pause waits for the next poll.
func (s *Source) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(common.TickBefore(s.settings.Poll)):
	}
}

// inspect returns the data version. It checks that the file is still the opened one, prepares the capture again if the
// schema changed, and removes acknowledged changes.
func (s *Source) inspect(ctx context.Context) (version int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if info, err := os.Stat(s.settings.Path); err != nil || !os.SameFile(info, s.info) {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = errMoved
		}
		return 0, err
	}
	var schema int64
	if err := s.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return 0, fmt.Errorf("cannot read changes: %w", err)
	}
	if err := s.conn.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&schema); err != nil {
		return 0, fmt.Errorf("cannot read changes: %w", err)
	}
	if schema != s.captured.Version {
		if err := s.prepare(ctx, s.unstable(), false); err != nil {
			return 0, err
		}
		version = 0 // other tables may have rows to read
	}
	return version, s.settle(ctx)
}

// send passes records to Read, and reports whether it succeeded. While it waits, it removes acknowledged changes.
func (s *Source) send(ctx context.Context, records []record.Record) bool {
	return s.SendMeanwhile(ctx, records, settleEvery, func() {
		if err := s.settle(ctx); err != nil {
			s.log.Debug("cannot remove acknowledged changes, retrying", "err", err)
		}
	})
}

// lifecycle opens the database for a lifecycle call, with other settings than Configure's. A database that does not
// exist needs no cleanup.
func lifecycle(
	ctx context.Context, given map[string]string, do func(*sourceSettings, *Capture, *sql.Conn) error,
) error {
	s := &sourceSettings{}
	if err := s.parse(ctx, given); err != nil {
		return err
	}
	db, err := s.Open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return do(s, s.capture(ctx), conn)
}

// LifecycleOnCreated implements sdk.Source: it starts the capture of changes.
func (s *Source) LifecycleOnCreated(ctx context.Context, given map[string]string) error {
	return lifecycle(ctx, given, func(s *sourceSettings, c *Capture, conn *sql.Conn) error {
		return c.Prepare(ctx, conn, s.Tables, nil, true)
	})
}

// LifecycleOnUpdated implements sdk.Source: it schedules the tables to read again, and removes the capture under the
// former settings.
func (s *Source) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	old := &sourceSettings{}
	if err := old.parse(ctx, before); err != nil {
		return err
	}
	err := lifecycle(ctx, after, func(s *sourceSettings, c *Capture, conn *sql.Conn) error {
		var again []string
		for _, item := range s.Again {
			if table, _, ok := cutLast(item); ok && !slices.Contains(old.Again, item) {
				again = append(again, table)
			}
		}
		return c.Prepare(ctx, conn, s.Tables, again, false)
	})
	if err != nil || old.Path == after["path"] && old.Changes == after["changes.table"] {
		return err
	}
	var now sourceSettings
	if err := now.parse(ctx, after); err != nil || now.Path == old.Path && now.Changes == old.Changes {
		return err
	}
	return s.LifecycleOnDeleted(ctx, before)
}

// LifecycleOnDeleted implements sdk.Source: it removes triggers and tables.
func (s *Source) LifecycleOnDeleted(ctx context.Context, given map[string]string) error {
	err := lifecycle(ctx, given, func(_ *sourceSettings, c *Capture, conn *sql.Conn) error { return c.Drop(ctx, conn) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
