package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Source reads tables and their changes.
type Source struct {
	settings settings
	id       string // connector id
	log      *slog.Logger
	schemas  *schemas

	*common.Queue
	cancel context.CancelFunc
	done   sync.WaitGroup
	rescan chan struct{} // capacity one: there are new tables

	// Owned by Open until it returns, then by run.
	tables map[uint32]*pg.Table
	system string          // identifier of the server's data
	at     place           // of the last emitted or skipped record
	todo   []todo          // tables whose rows to read, the current one first
	all    bool            // also read the tables with ids above todo[0]
	begun  bool            // a snapshot has begun for todo
	read   map[uint32]bool // OIDs of tables read since Open: their mark stays until the rows are acknowledged
	seen   *visibility
	pids   []uint32 // server ids of the latest sessions for the slot

	presence  presence
	confirmer confirmer
	monitor   monitor
}

// place is the place of a change in the stream.
type place struct {
	commit pg.LSN
	index  int64
}

// maxBatches, together with maxRecords and maxBytes, bounds the records that the source buffers for Read.
const (
	maxBatches = 2
	maxRecords = 512
	maxBytes   = 256 << 10
)

// Parameters implements sdk.Source.
func (s *Source) Parameters() sdk.Parameters { return sdk.Described(settings{}, descriptions) }

// Configure implements sdk.Source.
func (s *Source) Configure(ctx context.Context, given map[string]string) error {
	return s.settings.parse(ctx, given)
}

// Open implements sdk.Source. It prepares publication and slot if LifecycleOnCreated did not.
func (s *Source) Open(ctx context.Context, p record.Position) error {
	pos, err := parsePosition(p)
	if err != nil {
		return err
	}
	env := sdk.EnvFrom(ctx)
	s.id, s.log = env.ConnectorID, env.Logger
	if s.settings.WithAvroSchema {
		s.schemas = newSchemas(env.Schemas)
	}
	s.at = place{pos.commit, pos.Index}
	if pos.Type == typeStream && pos.Index == 0 { // written by Conduit
		s.at, s.confirmer.conduit = place{}, pos.commit
	}
	s.confirmer.acked = s.at
	s.seen, s.read = parseSeen(pos.Seen), map[uint32]bool{}
	if err := s.prepare(ctx, &pos); err != nil {
		return err
	}
	if pos.System != "" && pos.System != s.system {
		return fmt.Errorf("the position belongs to another server, with system identifier %s; the server of the url "+
			"has %s: set url to the original server or a replica of it", pos.System, s.system)
	}
	s.start(ctx)
	return nil
}

// start starts the goroutines that Teardown ends.
func (s *Source) start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.Queue, s.rescan = common.NewQueue(ctx, maxBatches), make(chan struct{}, 1)
	s.confirmer.snapshot(len(s.todo) > 0)
	s.done.Go(func() { s.run(ctx) })
	s.done.Go(func() {
		if err := sdk.Contain(func() error { s.watch(ctx); return nil }); err != nil {
			s.Fail(ctx, err)
		}
	})
}

// prepare connects, prepares publication and slot, and decides which tables to read.
func (s *Source) prepare(ctx context.Context, pos *position) error {
	conn, err := pg.ConnectGuarded(ctx, s.settings.URL, s.settings.Timeout, nil)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	set := &setup{&s.settings, conn, s.id}
	if err := set.check(ctx); err != nil {
		return err
	}
	made, err := set.prepare(ctx, pos.Type != 0, nil)
	s.leaveOut(made.left)
	if err != nil {
		return err
	}
	s.warn(&s.monitor.omits, made.omits)
	s.warn(&s.monitor.unmatched, made.unmatched)
	if err := s.notice(ctx, set, made.tables, made.left); err != nil {
		return err
	}
	s.tables = map[uint32]*pg.Table{}
	for _, t := range made.tables {
		if len(t.Key) == 0 {
			s.log.Warn("a table has no primary key, so its records have no key", "table", t.ID())
		}
		s.tables[t.OID] = t
	}
	for _, t := range made.added { // like a table left out for a while: its changes were missed
		delete(s.read, t.OID)
	}
	s.plan(made.tables, made.pending, pos)
	if s.system == "" {
		s.system, err = s.identify(ctx)
	}
	return err
}

// plan decides which tables to read in full.
func (s *Source) plan(tables []*pg.Table, pending []string, pos *position) {
	if s.settings.SnapshotMode == "never" && len(pending) == 0 {
		return
	}
	all := pg.IDs(tables)
	slices.Sort(all)
	switch pos.Type {
	case 0:
		s.todo, s.all, s.seen = todoOf(all), true, nil
		return
	case typeSnapshot:
		s.begun = true
		s.todo, s.all = slices.DeleteFunc(pos.Todo, func(t todo) bool { return !slices.Contains(all, t.Table) }),
			pos.All
		if pos.Snapshots != nil { // Conduit reads all tables at once: it has not begun the ones missing here
			for _, id := range all {
				if _, begun := pos.Snapshots[strings.TrimPrefix(id, "public.")]; !begun {
					s.todo = append(s.todo, todo{Table: id})
				}
			}
		} else if s.all && len(pos.Todo) > 0 {
			for _, id := range all {
				if id > pos.Todo[0].Table {
					s.todo = append(s.todo, todo{Table: id})
				}
			}
		}
	}
	for _, id := range pending {
		t := s.tableOf(id)
		if t != nil && !s.read[t.OID] && !slices.ContainsFunc(s.todo, func(t todo) bool { return t.Table == id }) {
			s.todo = append(s.todo, todo{Table: id})
		}
	}
}

func todoOf(ids []string) []todo {
	all := make([]todo, len(ids))
	for i, id := range ids {
		all[i] = todo{Table: id}
	}
	return all
}

// prepared holds the tables of a source and the changes to the publication.
type prepared struct {
	tables  []*pg.Table
	added   []*pg.Table  // tables newly added to the publication
	left    []pg.LeftOut // tables that the source does not read
	pending []string     // tables to snapshot in addition to those in the position

	// Warnings, or "".
	omits     string // operations that the publication does not publish
	unmatched string // patterns that match no table
}

// prepare creates or changes the publication and the slot to match the settings.
func (s *setup) prepare(ctx context.Context, begun bool, again []string) (made prepared, err error) {
	p, err := s.find(ctx)
	if err != nil {
		return made, err
	}
	found, err := s.resolve(ctx, p)
	if err != nil {
		return made, err
	}
	made.tables, made.left = found.Tables, found.Left
	made.unmatched = unmatched(found.Unmatched)
	if err := s.refuse(ctx, p, made.left); err != nil {
		return made, err
	}
	made.omits = s.omits(p)
	for _, t := range made.tables {
		if err := t.Describe(ctx, s.conn); err != nil {
			return made, err
		}
		p.narrow(t)
	}
	// The publication comes first: the slot must not stand before it in the log.
	if made.added, made.pending, err = s.publish(ctx, p, made.tables, again); err != nil {
		return made, err
	}
	return made, s.ensureSlot(ctx, begun)
}

// resolve returns the tables of the settings. It keeps a table of a publication that the source cannot change:
// leaving it out would help nobody.
func (s *setup) resolve(ctx context.Context, p *publication) (*pg.Selection, error) {
	found, err := pg.Resolve(ctx, s.conn, s.Tables)
	if err != nil {
		return nil, err
	}
	for _, l := range found.Left {
		if p.isFixed(l.Table) {
			found.Tables = append(found.Tables, l.Table)
		}
	}
	found.Left = slices.DeleteFunc(found.Left, func(l pg.LeftOut) bool { return p.isFixed(l.Table) })
	return found, nil
}

// unmatched describes the patterns that match no table, or returns "".
func unmatched(patterns []string) string {
	if len(patterns) == 0 {
		return ""
	}
	return fmt.Sprintf("no table matches %s yet: a pattern is schema.table, and * in the table name "+
		"matches any characters", pg.List(patterns))
}

// refuse returns an error if the settings name a table that must be left out. It removes such a table from the
// publication, for example after its key was dropped, so that programs can write to it.
func (s *setup) refuse(ctx context.Context, p *publication, left []pg.LeftOut) error {
	var members []string
	var named error
	for _, l := range left {
		if p.members[l.ID()].listed {
			members = append(members, l.ID())
		}
		if l.Named && named == nil {
			named = fmt.Errorf("cannot read changes of table %s: %w; or remove it from tables", l.ID(), l.Err)
		}
	}
	if named == nil || len(members) == 0 {
		return named
	}
	return errors.Join(named, s.withdraw(ctx, members))
}

// leaveOut reports which tables are left out.
func (s *Source) leaveOut(left []pg.LeftOut) {
	for _, skip := range s.monitor.skips.List() {
		if !slices.ContainsFunc(left, func(l pg.LeftOut) bool { return l.ID() == skip.Of }) {
			s.monitor.skips.Remove(skip.Of)
		}
	}
	for _, l := range left {
		if s.monitor.skips.Add(l.ID(), l.Err) {
			s.log.Warn("skipping a table", "table", l.ID(), "err", l.Err)
		}
	}
}

// warn sets a warning of the status, or clears it with "". It logs a new warning.
func (s *Source) warn(which *string, warning string) {
	news := false
	s.monitor.set(func() { news, *which = warning != *which, warning })
	if news && warning != "" {
		s.log.Warn(warning)
	}
}

// identify returns the identifier of the server's data.
func (s *Source) identify(ctx context.Context) (string, error) {
	conn, err := pg.ConnectGuarded(ctx, s.settings.URL, s.settings.Timeout,
		map[string]string{"replication": "database"})
	if err != nil {
		if pg.Code(err) == pg.CodePrivilege || pg.Code(err) == pg.CodeInvalidAuth {
			return "", fmt.Errorf("%w: the role needs the attribute REPLICATION, and pg_hba.conf must allow its "+
				"replication connections", err)
		}
		return "", err
	}
	defer pg.Close(conn)
	results, err := conn.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", fmt.Errorf("cannot identify the server: %w", err)
	}
	return string(results[0].Rows[0][0]), nil
}

// Ack implements sdk.Source. The next status confirms the acknowledged positions to the server.
func (s *Source) Ack(_ context.Context, positions []record.Position) error {
	return s.confirmer.acknowledged(positions)
}

// Progress implements sdk.Reporter.
func (s *Source) Progress() progress.Report { return s.monitor.report() }

// Teardown implements sdk.Source.
func (s *Source) Teardown(context.Context) error {
	if s.cancel != nil {
		s.cancel()
		s.done.Wait()
	}
	s.Queue.Close()
	return nil
}

// run reads until ctx ends or a permanent error occurs.
func (s *Source) run(ctx context.Context) {
	common.Repeat(ctx, func(works func()) error {
		err := s.session(ctx, func() { works(); s.monitor.connected() })
		if errors.Is(err, errRescan) {
			if err = s.prepare(ctx, &position{Type: typeStream}); err == nil {
				s.confirmer.snapshot(len(s.todo) > 0)
			}
		}
		return err
	}, func(err error) bool {
		if !pg.Transient(err) {
			s.Fail(ctx, err)
			return false
		}
		s.log.Warn("lost the connection to PostgreSQL, reconnecting", "err", err)
		s.monitor.disconnected(err)
		return true
	})
}

// errRescan ends a session because there are new tables.
var errRescan = errors.New("tables came")

// session reads the pending tables in full, and then changes.
func (s *Source) session(ctx context.Context, connected func()) error {
	if len(s.todo) > 0 {
		if err := s.readTables(ctx, connected); err != nil {
			return err
		}
	}
	return s.stream(ctx, connected)
}

// lifecycle connects for a lifecycle call, with other settings than Configure's.
func lifecycle(ctx context.Context, given map[string]string, do func(*setup) error) error {
	s := &settings{}
	if err := s.parse(ctx, given); err != nil {
		return err
	}
	conn, err := pg.ConnectGuarded(ctx, s.URL, s.Timeout, nil)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	return do(&setup{s, conn, sdk.EnvFrom(ctx).ConnectorID})
}

// LifecycleOnCreated implements sdk.Source: it creates publication and slot.
func (s *Source) LifecycleOnCreated(ctx context.Context, given map[string]string) error {
	return lifecycle(ctx, given, func(set *setup) error {
		if err := set.check(ctx); err != nil {
			return err
		}
		_, err := set.prepare(ctx, false, nil)
		return err
	})
}

// LifecycleOnUpdated implements sdk.Source: if the name of the slot changed, the new slot takes over the place of the
// old one. It also marks the tables to read.
func (s *Source) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	old := &settings{}
	if err := old.parse(ctx, before); err != nil {
		return err
	}
	return lifecycle(ctx, after, func(set *setup) error {
		former := &setup{old, set.conn, set.connector}
		if err := set.takeOver(ctx, former); err != nil {
			return err
		}
		var again []string
		for _, item := range set.Again {
			if !slices.Contains(old.Again, item) {
				again = append(again, againTable(item))
			}
		}
		_, err := set.prepare(ctx, true, again)
		return err
	})
}

// takeOver moves to a new slot and publication if the names changed, and removes the old ones.
func (s *setup) takeOver(ctx context.Context, former *setup) error {
	if s.Slot != former.Slot {
		found, err := former.slot(ctx)
		if err != nil {
			return err
		}
		if found.exists {
			if err := s.copySlot(ctx, former.Slot); err != nil {
				return err
			}
			if former.AutoCleanup {
				if err := former.dropSlot(ctx); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// againTable returns the id of the table in an item of snapshot.again.
func againTable(item string) string {
	schema, name := pg.ParsePattern(item[:strings.LastIndexByte(item, '/')]) // parse has checked that there is a dot
	return schema + "." + name
}

// LifecycleOnDeleted implements sdk.Source: it removes slot and publication.
func (s *Source) LifecycleOnDeleted(ctx context.Context, given map[string]string) error {
	return lifecycle(ctx, given, func(set *setup) error {
		if !set.AutoCleanup {
			return nil
		}
		p, err := set.publication(ctx)
		if err != nil || p.mark != nil && p.mark.Connector != set.connector {
			return err // it belongs to another connector
		}
		if err := set.dropSlot(ctx); err != nil {
			return err
		}
		return set.dropPublication(ctx)
	})
}

// closing interrupts reads from conn when ctx ends, until the caller calls stop.
func closing(ctx context.Context, conn *pgconn.PgConn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = conn.Conn().SetReadDeadline(time.Unix(1, 0)) })
}
