package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/backoff"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql/replica"
	"github.com/conduit-agent/conduit/plugins/builtin/sources"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Source reads tables and their changes.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	log      *slog.Logger

	*sources.Queue
	cancel  context.CancelFunc
	running sync.WaitGroup

	// Owned by Open until it returns, then by run.
	db       *sql.DB
	server   serverInfo
	charsets *Charsets
	tables   map[string]*Table // as the catalogue describes them, by id, before the changes that are still to come
	at       place             // of the last record handed on, or skipped; without a file: there is none yet
	done     items             // of the settings: rows are read
	begun    items             // rows are being read
	reading  *table            // the one that is being read
	seen     *seen
	cascades []string // foreign keys that were warned of

	monitor monitor
}

// Parameters implements sdk.Source.
func (s *Source) Parameters() sdk.Parameters { return sdk.ParametersOf(sourceSettings{}) }

// Configure implements sdk.Source.
func (s *Source) Configure(ctx context.Context, given map[string]string) error {
	return s.settings.parse(ctx, given)
}

// Open implements sdk.Source.
func (s *Source) Open(ctx context.Context, p record.Position) error {
	env := sdk.EnvFrom(ctx)
	s.log = env.Logger
	pos, err := parsePosition(p)
	if err != nil {
		return err
	}
	s.resume(&pos)
	s.monitor.keep(p)
	if err := s.connect(ctx); err != nil {
		s.disconnect()
		return err
	}
	if err := s.begin(ctx); err != nil {
		s.disconnect()
		return err
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.Queue = sources.NewQueue(ctx, maxBatches)
	s.running.Go(func() { s.run(ctx) })
	s.running.Go(func() {
		if err := sdk.Contain(func() error { s.watch(ctx); return nil }); err != nil {
			s.Fail(ctx, err)
		}
	})
	return nil
}

// resume goes on from a position.
func (s *Source) resume(pos *position) {
	if pos.Type == 0 {
		return
	}
	s.at, s.seen = pos.place(), pos.Seen
	present := s.settings.items()
	s.done = parseItems(pos.Done)
	for _, p := range s.settings.patterns[:len(s.settings.Tables)] {
		if s.done.has(itemOf(p.Schema+".*")) && !s.done.has(p.item) {
			s.done = append(s.done, p.item)
		}
	}
	for _, item := range parseItems(pos.Begun) {
		if present.has(item) {
			s.begun = append(s.begun, item)
		}
	}
	if len(s.begun) > 0 {
		s.reading = pos.Table
	} else if !slices.ContainsFunc(present, func(item string) bool { return !s.done.has(item) }) {
		s.prune()
	}
	if s.at.index > 0 && pos.Tables != s.settings.fingerprint() {
		s.at.in, s.at.index = "", 0 // with other tables other records are counted: the transaction comes again
	}
}

// prune forgets that rows were read of entries that the settings have no longer: once they have them again, these are read again.
func (s *Source) prune() {
	present := s.settings.items()
	s.done = slices.DeleteFunc(s.done, func(item string) bool { return !present.has(item) })
}

// connect connects and checks the server.
func (s *Source) connect(ctx context.Context) error {
	db, err := s.settings.open(ctx)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(2) // what the log is read with, and lag
	s.db = db
	if s.server, err = identify(ctx, db); err != nil {
		return err
	}
	if err := s.server.check(); err != nil {
		return err
	}
	if err := s.checkReplica(ctx); err != nil {
		return err
	}
	if err := s.checkHistory(ctx); err != nil {
		return err
	}
	if s.charsets, err = NewCharsets(ctx, db, s.server.maria); err != nil {
		return err
	}
	if err := s.describeTables(ctx); err != nil {
		return err
	}
	return s.warnOfCascades(ctx)
}

func (s *Source) describeTables(ctx context.Context) error {
	all, err := resolve(ctx, s.db, s.settings.patterns)
	if err != nil {
		return err
	}
	s.warnOfUnmatched(all)
	s.tables = map[string]*Table{}
	for _, t := range all {
		if err := t.Describe(ctx, s.db); err != nil {
			return err
		}
		s.tables[t.ID()] = t
	}
	return nil
}

// warnOfUnmatched warns of entries of tables with * that stand for no table, which may come later.
func (s *Source) warnOfUnmatched(tables []*Table) {
	for _, p := range s.settings.patterns[:len(s.settings.Tables)] {
		if !slices.ContainsFunc(tables, func(t *Table) bool { return p.Matches(t.Schema, t.Name) }) {
			s.log.Warn("a database has no table, or none that the user may read: GRANT SELECT "+
				"ON "+Quote(p.Schema)+".* TO "+s.server.user, "database", p.Schema)
		}
	}
}

func (s *Source) disconnect() {
	if s.db != nil {
		_ = s.db.Close()
		s.db = nil
	}
}

// begin decides where a source that has no position begins that reads no rows.
func (s *Source) begin(ctx context.Context) error {
	if s.settings.SnapshotMode == "never" {
		for _, item := range s.settings.tableItems() {
			if !s.done.has(item) && !s.begun.has(item) {
				s.done = append(s.done, item)
			}
		}
		if s.at.file == "" {
			var err error
			if s.at, err = s.server.end(ctx, s.db); err != nil {
				return err
			}
		}
	}
	for _, t := range s.tables {
		if len(t.Key) == 0 {
			s.log.Warn("a table has no primary key: its records have none", "table", t.ID())
		}
		if !t.Transactional {
			s.log.Warn("a table has no transactions: its rows may come older than changes of them", "table", t.ID())
		}
	}
	return nil
}

// Ack implements sdk.Source: the server keeps its log whatever is acknowledged.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	if n := len(positions); n > 0 {
		s.monitor.keep(positions[n-1])
	}
	return nil
}

// Progress implements sdk.Reporter.
func (s *Source) Progress() progress.Report { return s.monitor.report() }

// Teardown implements sdk.Source.
func (s *Source) Teardown(context.Context) error {
	if s.cancel != nil {
		s.cancel()
		s.running.Wait()
	}
	s.disconnect()
	s.Queue.Close()
	return nil
}

// run reads until ctx ends or an error comes that trying again does not help.
func (s *Source) run(ctx context.Context) {
	var wait backoff.Backoff
	for first := true; ctx.Err() == nil; first = false {
		err := sdk.Contain(func() error {
			return s.session(ctx, first, func() { wait = backoff.Backoff{}; s.monitor.connected() })
		})
		if ctx.Err() != nil {
			return
		}
		if !transient(err) && !errors.Is(err, errAgain) {
			s.Fail(ctx, err)
			return
		}
		s.log.Warn("the connection to MySQL is lost: trying again", "err", err)
		s.monitor.disconnected(err)
		if wait.Wait(ctx) != nil {
			return
		}
	}
}

// session reads rows that are still to be read, and then the log, until the connection is lost.
func (s *Source) session(ctx context.Context, first bool, connected func()) error {
	if !first { // it may be another server
		var err error
		if s.server, err = identify(ctx, s.db); err != nil {
			return err
		}
		if err = s.server.check(); err == nil {
			err = s.checkHistory(ctx)
		}
		if err != nil {
			return err
		}
	}
	for s.pending() {
		if err := s.readTables(ctx, connected); err != nil {
			return err
		}
	}
	return s.stream(ctx, connected)
}

// dial logs in as a replica.
func (s *Source) dial(ctx context.Context) (*replica.Conn, error) {
	config, err := s.settings.replica()
	if err != nil {
		return nil, err
	}
	conn, err := replica.Connect(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to MySQL: %w", plain(err))
	}
	return conn, nil
}

// checkReplica logs in as a replica, which fails when the user may not.
func (s *Source) checkReplica(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Register(uint32(time.Now().UnixNano())|1, "conduit"); err != nil {
		if !transient(plain(err)) {
			return fmt.Errorf("cannot read the log: %w: the user needs the privilege: GRANT REPLICATION SLAVE ON *.* TO %s", plain(err), s.server.user)
		}
		return fmt.Errorf("cannot read the log: %w", plain(err))
	}
	return nil
}
