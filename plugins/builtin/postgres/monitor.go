package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/progress"
)

// monitor holds the lag of the source, and the problems of the slot.
type monitor struct {
	mu        sync.Mutex
	behind    *int64    // unconfirmed bytes of the log
	at        time.Time // time of the measurement
	newest    time.Time // commit time of the newest transaction
	current   bool      // the server has no more changes
	lost      string    // why the connection is lost
	slot      string    // problem of the slot
	tables    string    // which tables cannot be read
	omits     string    // which operations the publication does not publish
	unmatched string    // which patterns match no table
	snapshots []*snapshotProgress

	skips progress.Skips // tables that were left out; has its own lock
}

// snapshotProgress is the progress of reading the rows of a table.
type snapshotProgress struct {
	table          string
	rows           atomic.Int64
	total, resumed int64
	started        time.Time
	done           atomic.Bool
}

func (p *snapshotProgress) set(rows int64) { p.rows.Store(rows) }
func (p *snapshotProgress) finish()        { p.done.Store(true) }

// snapshotOf starts the progress of a table with the number of rows read earlier.
func (m *monitor) snapshotOf(t *pg.Table, rows int64) *snapshotProgress {
	p := &snapshotProgress{table: t.ID(), total: t.Estimate, resumed: rows, started: time.Now()}
	p.rows.Store(rows)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshots = append(slices.DeleteFunc(m.snapshots, func(o *snapshotProgress) bool { return o.table == p.table }), p)
	return p
}

func (m *monitor) snapshotDone() { m.set(func() { m.snapshots = nil }) }

func (m *monitor) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *monitor) connected() { m.set(func() { m.lost = "" }) }

func (m *monitor) disconnected(err error) {
	m.set(func() {
		m.current = false
		if m.lost == "" {
			m.lost = fmt.Sprintf("not connected since %s: %v", time.Now().UTC().Format(time.RFC3339), err)
		}
	})
}

// committed records the arrival of a transaction.
func (m *monitor) committed(_ pg.LSN, at time.Time) {
	m.set(func() { m.newest, m.current = at, false })
}

// caughtUp records that the source has read all changes.
func (m *monitor) caughtUp(pg.LSN) { m.set(func() { m.current = true }) }

func (m *monitor) report() progress.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := progress.Report{At: m.at, Bytes: m.behind}
	r.SetAge(m.newest, m.current)
	for _, p := range m.snapshots {
		if !p.done.Load() {
			r.Snapshots = append(r.Snapshots, progress.Snapshot{Of: p.table, Rows: p.rows.Load(), Total: p.total,
				Resumed: p.resumed, StartedAt: p.started})
		}
	}
	r.Warn(m.lost, m.slot, m.tables, m.omits)
	r.Nothing = m.unmatched
	r.Skipped = m.skips.List()
	return r
}

// watch periodically measures the lag of the slot, looks for new tables, and records settled tables, in a separate
// session. It ends with ctx.
func (s *Source) watch(ctx context.Context) {
	var conn *pgconn.PgConn
	defer func() { pg.Close(conn) }()
	tick := time.NewTicker(s.settings.Heartbeat)
	defer tick.Stop()
	for {
		var err error
		if conn == nil || conn.IsClosed() {
			conn, err = pg.ConnectGuarded(ctx, s.settings.URL, s.settings.Timeout, nil)
		}
		if err == nil {
			// The timeout bounds the wait for locks, because other sessions would queue behind it. It is not short: a
			// busy server needs some time to answer.
			bounded, cancel := context.WithTimeout(ctx, max(3*s.settings.Heartbeat, s.settings.Timeout))
			err = s.observe(bounded, &setup{&s.settings, conn, s.id})
			cancel()
		}
		if err != nil && ctx.Err() == nil {
			s.log.Debug("cannot observe the slot", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

const lagQuery = `
SELECT pg_catalog.pg_wal_lsn_diff(w.at, s.confirmed_flush_lsn)::bigint,
  pg_catalog.pg_wal_lsn_diff(w.at, s.restart_lsn)::bigint, coalesce(s.wal_status, '')
FROM pg_catalog.pg_replication_slots s,
  (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS at) w
WHERE s.slot_name = $1`

func (s *Source) observe(ctx context.Context, set *setup) error {
	r, err := pg.Row(ctx, set.conn, lagQuery, s.settings.Slot)
	if err != nil {
		return err
	}
	if r == nil {
		s.monitor.set(func() {
			s.monitor.slot = "slot " + s.settings.Slot + " no longer exists; a new snapshot is needed"
		})
		return nil
	}
	behind, _ := strconv.ParseInt(r[0], 10, 64)
	held, _ := strconv.ParseInt(r[1], 10, 64)
	s.monitor.set(func() { s.monitor.behind, s.monitor.at = &behind, time.Now() })
	if err := s.judge(ctx, set, held, r[2]); err != nil {
		return err
	}
	if read := s.confirmer.settledTables(); len(read) > 0 {
		if err := set.finished(ctx, read); err != nil {
			return err
		}
	}
	return s.findTables(ctx, set)
}

// judge decides how to react to the amount of log that the slot retains on the server's disk.
func (s *Source) judge(ctx context.Context, set *setup, held int64, status string) error {
	warning := ""
	limit := s.settings.maxLag
	switch {
	case status == "lost":
		warning = fmt.Sprintf("slot %s was invalidated by the server; a new snapshot is needed", s.settings.Slot)
	case status == "unreserved":
		warning = fmt.Sprintf("slot %s will soon be invalidated by the server: it retains %d bytes of write-ahead "+
			"log, more than max_slot_wal_keep_size allows", s.settings.Slot, held)
	case limit > 0 && held > limit:
		warning = fmt.Sprintf("slot %s retains %d bytes of write-ahead log on the server, more than slot.max-lag: %d",
			s.settings.Slot, held, limit)
	}
	var before string
	s.monitor.set(func() { before, s.monitor.slot = s.monitor.slot, warning })
	if warning != "" && before == "" {
		s.log.Warn("the slot retains too much write-ahead log",
			"slot", s.settings.Slot, "bytes", held, "status", status)
	}
	if limit <= 0 || held <= limit || s.settings.OnMaxLag == "warn" {
		return nil
	}
	if s.settings.OnMaxLag == "drop" {
		if err := set.dropSlot(ctx); err != nil {
			return err
		}
		s.Fail(ctx,
			s.settings.lost(fmt.Sprintf("was dropped because it retained %d bytes of write-ahead log, "+
				"more than slot.max-lag", held)))
		return nil
	}
	s.Fail(ctx, fmt.Errorf("%s: the source stopped because slot.max-lag-action is stop; the slot retains the log "+
		"until the source catches up or the pipeline is deleted", warning))
	return nil
}

// notice warns of tables and partitions that disappeared or appeared together with their rows.
func (s *Source) notice(ctx context.Context, set *setup, tables []*pg.Table, left []pg.LeftOut) error {
	all := slices.Clone(tables)
	for _, l := range left {
		all = append(all, l.Table)
	}
	warnings, err := s.presence.compare(ctx, set, all)
	for _, w := range warnings {
		s.log.Warn(w)
	}
	return err
}

// findTables makes the reading goroutine start a new session if there are new tables. It removes a table that lost its
// key from the publication at once: until then programs cannot update it.
func (s *Source) findTables(ctx context.Context, set *setup) error {
	p, err := set.publication(ctx)
	if err != nil {
		return err
	}
	s.warn(&s.monitor.omits, set.omits(&p))
	found, err := set.resolve(ctx, &p)
	if err != nil {
		news := false
		s.monitor.set(func() { news, s.monitor.tables = s.monitor.tables != err.Error(), err.Error() })
		if news && ctx.Err() == nil {
			s.log.Warn("cannot look up the tables to read", "err", err)
		}
		return nil
	}
	tables, left := found.Tables, found.Left
	s.warn(&s.monitor.unmatched, unmatched(found.Unmatched))
	if err := s.notice(ctx, set, tables, left); err != nil {
		return err
	}
	if err := set.refuse(ctx, &p, left); err != nil {
		s.Fail(ctx, err)
		return nil
	}
	var lost []string
	for _, l := range left {
		if p.members[l.ID()].listed {
			lost = append(lost, l.ID())
		}
	}
	if len(lost) > 0 {
		if err := set.withdraw(ctx, lost); err != nil {
			s.monitor.set(func() { s.monitor.tables = err.Error() })
			return err
		}
	}
	s.leaveOut(left) // programs can write to them now
	var missing []string
	for _, t := range tables {
		if !p.has(t.ID()) {
			missing = append(missing, t.ID())
		}
	}
	warning := ""
	switch {
	case !p.exists:
		warning = fmt.Sprintf("publication %s no longer exists", s.settings.Publication)
	case len(missing) > 0 && !p.owned:
		warning = fmt.Sprintf("tables %s are not captured: publication %s belongs to another role, which must add them",
			pg.List(missing), s.settings.Publication)
	case len(missing) > 0:
		select {
		case s.rescan <- struct{}{}:
		default:
		}
	}
	s.monitor.set(func() { s.monitor.tables = warning })
	return nil
}
