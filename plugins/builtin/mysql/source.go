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

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Source reads tables and their changes.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	log      *slog.Logger

	*common.Queue
	cancel  context.CancelFunc
	running sync.WaitGroup

	// Owned by Open until it returns, then by run.
	db       *sql.DB
	server   serverInfo
	charsets *Charsets
	tables   map[string]*Table // catalogue descriptions by id, older than the changes still to come
	at       place             // of the last emitted or skipped record; without a file: not yet known
	done     items             // items whose rows have been read
	begun    items             // items whose rows are being read
	reading  *table            // the table being read
	seen     *seen
	cascades []string // foreign keys with a warning in the log

	monitor monitor
}

// Parameters implements sdk.Source.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+common.Descriptions)
}

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
	s.Queue = common.NewQueue(ctx, maxBatches)
	s.running.Go(func() { s.run(ctx) })
	s.running.Go(func() {
		if err := sdk.Contain(func() error { s.watch(ctx); return nil }); err != nil {
			s.Fail(ctx, err)
		}
	})
	return nil
}

// resume continues from a position.
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
		s.at.in, s.at.index = "", 0 // other tables change the record numbers: the transaction is emitted again
	}
}

// prune drops entries that the settings no longer have from done. If such an entry returns, the source reads its rows
// again.
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
	db.SetMaxOpenConns(2) // one to read the log, one to measure lag
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

// warnOfUnmatched warns of entries with * that match no table yet.
func (s *Source) warnOfUnmatched(tables []*Table) {
	for _, p := range s.settings.patterns[:len(s.settings.Tables)] {
		if !slices.ContainsFunc(tables, func(t *Table) bool { return p.Matches(t.Schema, t.Name) }) {
			s.log.Warn("a database has no tables that the user can read: run GRANT SELECT ON "+Quote(p.Schema)+
				".* TO "+s.server.user, "database", p.Schema)
		}
	}
}

func (s *Source) disconnect() {
	if s.db != nil {
		_ = s.db.Close()
		s.db = nil
	}
}

// begin chooses the start of a source that has no position and reads no snapshot.
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
			s.log.Warn("a table has no primary key, so its records have no key", "table", t.ID())
		}
		if !t.Transactional {
			s.log.Warn("the engine of a table has no transactions, so snapshot records of it can be "+
				"older than its changes", "table", t.ID())
		}
	}
	return nil
}

// Ack implements sdk.Source. The retention of the server's log does not depend on it.
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

// run reads until ctx ends or a permanent error occurs.
func (s *Source) run(ctx context.Context) {
	var wait common.Backoff
	for first := true; ctx.Err() == nil; first = false {
		err := sdk.Contain(func() error {
			return s.session(ctx, first, func() { wait = common.Backoff{}; s.monitor.connected() })
		})
		if ctx.Err() != nil {
			return
		}
		if !transient(err) && !errors.Is(err, errAgain) {
			s.Fail(ctx, err)
			return
		}
		s.log.Warn("lost the connection to MySQL, reconnecting", "err", err)
		s.monitor.disconnected(err)
		if wait.Wait(ctx) != nil {
			return
		}
	}
}

// session reads the pending rows and then the log, until the connection is lost.
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
func (s *Source) dial(ctx context.Context) (*binlog.Conn, error) {
	config, err := s.settings.replica()
	if err != nil {
		return nil, err
	}
	conn, err := binlog.Connect(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to MySQL: %w", plain(err))
	}
	return conn, nil
}

// checkReplica logs in as a replica to check that the user may.
func (s *Source) checkReplica(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Register(uint32(time.Now().UnixNano())|1, "conduit"); err != nil {
		if !transient(plain(err)) {
			return fmt.Errorf("cannot read the binary log: %w: run GRANT REPLICATION SLAVE ON *.* TO %s",
				plain(err), s.server.user)
		}
		return fmt.Errorf("cannot read the binary log: %w", plain(err))
	}
	return nil
}
