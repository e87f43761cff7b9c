package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// mark is stored in the comment of the publication. It has the owner of the publication, and the tables added to it
// whose rows have not been read yet. It changes in one transaction with the publication, so that a crash in between
// does not lose the rows of a table.
type mark struct {
	Connector string   `json:"connector"`
	Slot      string   `json:"slot"`
	Pending   []string `json:"pending,omitempty"`
}

type comment struct {
	Conduit *mark `json:"conduit"`
}

// setup prepares a database for a source. It uses one session.
type setup struct {
	*settings
	conn      *pgconn.PgConn
	connector string // id
}

// publication is the state of the publication.
type publication struct {
	exists    bool
	owned     bool // the role may alter it
	allTables bool
	generated bool              // the server can publish generated columns
	members   map[string]member // published tables; a partitioned table only if all its partitions are published
	omitted   []string          // operations that are not published
	mark      *mark             // nil: the publication has no mark
	foreign   bool              // the comment is not a mark
}

// member is a table of a publication.
type member struct {
	listed  bool     // by name, so that the source can remove it
	columns []string // published columns; nil: all
	filter  string   // condition for published rows; "": all
}

// published lists the operations in a publication of the source. A TRUNCATE becomes a warning.
const published = "insert, update, delete, truncate"

const publicationQuery = `
SELECT pg_catalog.pg_has_role(pubowner, 'USAGE'), puballtables,
coalesce(pg_catalog.obj_description(oid, 'pg_publication'), ''),
  pubinsert, pubupdate, pubdelete, pubtruncate, current_setting('server_version_num')::int >= 180000
FROM pg_catalog.pg_publication WHERE pubname = $1`

// membersQuery selects the tables of a publication: name, whether it is listed, columns and filter. A publication may
// publish partitions instead of the partitioned table, which is a member if all partitions are.
const membersQuery = `
WITH published AS (
  SELECT c.oid, t.schemaname || '.' || t.tablename AS name, to_jsonb(t) AS t
  FROM pg_catalog.pg_publication_tables t
    JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
  WHERE t.pubname = $1),
listed AS (
  SELECT r.prrelid AS oid FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
  WHERE p.pubname = $1),
roots AS (
  SELECT c.oid, n.nspname || '.' || c.relname AS name
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'p' AND NOT c.relispartition AND c.oid NOT IN (SELECT oid FROM published)
    AND (c.oid IN (SELECT oid FROM listed)
      OR (SELECT count(*) > 0 AND bool_and(l.relid::oid IN (SELECT oid FROM published))
        FROM pg_catalog.pg_partition_tree(c.oid) l WHERE l.isleaf AND l.level > 0)
      OR (SELECT puballtables FROM pg_catalog.pg_publication WHERE pubname = $1)))
SELECT name, oid IN (SELECT oid FROM listed), coalesce(t->>'attnames', ''), coalesce(t->>'rowfilter', '') FROM published
UNION ALL SELECT name, oid IN (SELECT oid FROM listed), '', '' FROM roots`

func (s *setup) publication(ctx context.Context) (p publication, err error) {
	r, err := pg.Row(ctx, s.conn, publicationQuery, s.Publication)
	if err != nil || r == nil {
		return p, err
	}
	p = publication{exists: true, owned: r[0] == "t", allTables: r[1] == "t"}
	p.mark, p.foreign = parseComment(r[2])
	for i, operation := range strings.Split(published, ", ") {
		if r[3+i] != "t" {
			p.omitted = append(p.omitted, operation)
		}
	}
	p.generated, p.members = r[7] == "t", map[string]member{}
	rows, err := pg.Rows(ctx, s.conn, membersQuery, s.Publication)
	for _, m := range rows {
		one := member{listed: m[1] == "t", filter: m[3]}
		if m[2] != "" {
			err = errors.Join(err, json.Unmarshal([]byte(m[2]), &one.columns))
		}
		p.members[m[0]] = one
	}
	return p, err
}

func parseComment(text string) (m *mark, foreign bool) {
	var c comment
	if json.Unmarshal([]byte(text), &c) == nil && c.Conduit != nil {
		return c.Conduit, false
	}
	return nil, text != ""
}

// find returns the publication, unless it or the slot belongs to another source.
func (s *setup) find(ctx context.Context) (*publication, error) {
	if err := s.checkOthers(ctx); err != nil {
		return nil, err
	}
	p, err := s.publication(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot look up publication %s: %w", s.Publication, err)
	}
	if p.mark != nil && p.mark.Connector != s.connector {
		return nil, fmt.Errorf("publication %s belongs to connector %s: set logrepl.publicationName and "+
			"logrepl.slotName of this connector to unused names", s.Publication, p.mark.Connector)
	}
	return &p, nil
}

func (p *publication) has(table string) bool {
	_, ok := p.members[table]
	return ok
}

// isFixed reports whether a table is in the publication and the source cannot remove it.
func (p *publication) isFixed(t *pg.Table) bool {
	m, ok := p.members[t.ID()]
	return ok && (!p.owned || !m.listed)
}

// narrow restricts the rows of a table to the columns and the filter of the publication, as for its changes.
func (p *publication) narrow(t *pg.Table) {
	m := p.members[t.ID()]
	t.Filter = m.filter
	t.Narrow(m.columns, p.generated)
}

// withdraw removes tables from the publication.
func (s *setup) withdraw(ctx context.Context, tables []string) error {
	statements := make([]string, len(tables))
	for i, t := range tables {
		statements[i] = s.dropStatement(t)
	}
	if err := s.inTransaction(ctx, statements); err != nil {
		return fmt.Errorf("cannot remove tables from publication %s: %w", s.Publication, err)
	}
	return nil
}

func (s *setup) dropStatement(table string) string {
	schema, name, _ := strings.Cut(table, ".")
	return "ALTER PUBLICATION " + pg.Quote(s.Publication) + " DROP TABLE ONLY " + pg.Quote(schema) + "." +
		pg.Quote(name)
}

// publish makes the publication consist of these tables. It returns the tables that it added, and the names of the
// tables whose rows must still be read in addition to the position: the added ones and the tables in again.
func (s *setup) publish(ctx context.Context, p *publication, tables []*pg.Table, again []string) (added []*pg.Table,
	pending []string, err error) {
	var missing []*pg.Table
	for _, t := range tables {
		if !p.has(t.ID()) {
			missing = append(missing, t)
		}
	}
	m := mark{Connector: s.connector, Slot: s.Slot}
	if p.mark != nil {
		m.Pending = p.mark.Pending
	}
	if s.SnapshotMode == "initial" {
		if p.exists {
			m.Pending = union(m.Pending, pg.IDs(missing))
		}
	}
	m.Pending = union(m.Pending, again)
	statements := s.alter(p, tables, missing)
	if p.exists && !p.owned && len(missing) > 0 {
		return nil, nil, fmt.Errorf("tables %s are not in publication %s, and this role may not alter it: "+
			"as its owner, run %s;", pg.List(pg.IDs(missing)), s.Publication, strings.Join(statements, "; "))
	}
	if (!p.exists || p.owned) && !p.foreign && (p.mark == nil || !m.equal(p.mark)) {
		statements = append(statements, s.commentStatement(&m))
	} else if len(again) > 0 && !p.owned {
		return nil, nil, fmt.Errorf("cannot read %s again: publication %s belongs to another role",
			pg.List(again), s.Publication)
	}
	if err := s.inTransaction(ctx, statements); err != nil {
		return nil, nil, s.explainPublication(err, tables)
	}
	return missing, m.Pending, nil
}

func (m *mark) equal(o *mark) bool {
	return m.Connector == o.Connector && m.Slot == o.Slot && slices.Equal(m.Pending, o.Pending)
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// alter returns the statements that make the publication consist of the tables.
func (s *setup) alter(p *publication, tables, missing []*pg.Table) []string {
	names := func(all []*pg.Table) string {
		sql := make([]string, len(all))
		for i, t := range all {
			sql[i] = t.Only()
		}
		return pg.List(sql)
	}
	switch {
	case !p.exists && len(tables) == 0:
		return []string{"CREATE PUBLICATION " + pg.Quote(s.Publication) + " WITH (publish = '" + published + "', " +
			"publish_via_partition_root = true)"}
	case !p.exists:
		return []string{"CREATE PUBLICATION " + pg.Quote(s.Publication) + " FOR TABLE " + names(tables) +
			" WITH (publish = '" + published + "', publish_via_partition_root = true)"}
	case p.allTables:
		return nil
	}
	var all []string
	if p.madeBefore() && p.owned {
		all = append(all, s.publishStatement())
	}
	if len(missing) > 0 {
		all = append(all, "ALTER PUBLICATION "+pg.Quote(s.Publication)+" ADD TABLE "+names(missing))
	}
	if p.mark != nil { // the source owns it
		for _, name := range slices.Sorted(maps.Keys(p.members)) {
			if p.members[name].listed && !slices.Contains(pg.IDs(tables), name) {
				all = append(all, s.dropStatement(name))
			}
		}
	}
	return all
}

// madeBefore reports whether an older source, which did not publish TRUNCATE, created the publication.
func (p *publication) madeBefore() bool {
	return p.mark != nil && slices.Equal(p.omitted, []string{"truncate"})
}

func (s *setup) publishStatement() string {
	return "ALTER PUBLICATION " + pg.Quote(s.Publication) + " SET (publish = '" + published + "')"
}

// omits describes the operations that the publication does not publish, or returns "".
func (s *setup) omits(p *publication) string {
	if len(p.omitted) == 0 || p.madeBefore() && p.owned || !p.exists {
		return ""
	}
	return fmt.Sprintf("publication %s does not publish %s, so these changes are missing: to publish them, run %s",
		s.Publication, pg.List(p.omitted), s.publishStatement())
}

func (s *setup) commentStatement(m *mark) string {
	text, _ := json.Marshal(comment{m}) // cannot fail
	return "COMMENT ON PUBLICATION " + pg.Quote(s.Publication) + " IS " + pg.Literal(string(text))
}

func (s *setup) inTransaction(ctx context.Context, statements []string) error {
	if len(statements) == 0 {
		return nil
	}
	err := pg.Execute(ctx, s.conn, "BEGIN; "+strings.Join(statements, "; ")+"; COMMIT")
	if err != nil && !s.conn.IsClosed() {
		_ = pg.Execute(ctx, s.conn, "ROLLBACK")
	}
	return err
}

func (s *setup) explainPublication(err error, tables []*pg.Table) error {
	err = fmt.Errorf("cannot prepare publication %s: %w", s.Publication, err)
	if pg.Code(err) == pg.CodePrivilege {
		return fmt.Errorf("%w: the role must own tables %s and have the privilege CREATE on the database, or another "+
			"role must create the publication first", err, pg.List(pg.IDs(tables)))
	}
	return err
}

const othersQuery = `
SELECT pubname, pg_catalog.obj_description(oid, 'pg_publication') FROM pg_catalog.pg_publication
WHERE pubname <> $1 AND pg_catalog.obj_description(oid, 'pg_publication') LIKE '{"conduit":%'`

// checkOthers returns an error if the mark of another source claims the slot.
func (s *setup) checkOthers(ctx context.Context) error {
	others, err := pg.Rows(ctx, s.conn, othersQuery, s.Publication)
	if err != nil {
		return fmt.Errorf("cannot look up publications: %w", err)
	}
	for _, o := range others {
		if m, _ := parseComment(o[1]); m != nil && m.Slot == s.Slot && m.Connector != s.connector {
			return fmt.Errorf("slot %s belongs to connector %s: set logrepl.slotName of this "+
				"connector to an unused name", s.Slot,
				m.Connector)
		}
	}
	return nil
}

// finished records in the mark that the rows of these tables have been read.
func (s *setup) finished(ctx context.Context, tables []string) error {
	p, err := s.publication(ctx)
	if err != nil || p.mark == nil || p.mark.Connector != s.connector || !p.owned {
		return err
	}
	m := *p.mark
	m.Pending = slices.DeleteFunc(slices.Clone(m.Pending), func(t string) bool { return slices.Contains(tables, t) })
	if m.equal(p.mark) {
		return nil
	}
	return s.inTransaction(ctx, []string{s.commentStatement(&m)})
}

// slot is the state of the slot on the server.
type slot struct {
	exists       bool
	plugin, db   string
	activePID    string // "0": not in use
	walStatus    string
	confirmed    string // confirmed LSN; empty: the server is still creating the slot
	invalidation string // reason for invalidation; empty before PostgreSQL 16
}

const slotQuery = `
SELECT plugin, coalesce(database, ''), coalesce(active_pid, 0), coalesce(wal_status, ''),
  coalesce(confirmed_flush_lsn::text, ''),
  coalesce(to_jsonb(s)->>'invalidation_reason', to_jsonb(s)->>'conflicting', '')
FROM pg_catalog.pg_replication_slots s WHERE slot_name = $1`

func (s *setup) slot(ctx context.Context) (found slot, err error) {
	r, err := pg.Row(ctx, s.conn, slotQuery, s.Slot)
	if err != nil || r == nil {
		return found, err
	}
	return slot{exists: true, plugin: r[0], db: r[1], activePID: r[2], walStatus: r[3], confirmed: r[4],
		invalidation: r[5]}, nil
}

// lost returns the error of a slot that lacks changes after the position.
func (s *settings) lost(why string) error {
	return fmt.Errorf("slot lost, a new snapshot is needed: slot %s %s, so the server has removed changes since the "+
		"last position. Give the source a new id or, to keep the id, delete the pipeline and declare it again; the "+
		"source then creates a new slot and reads the tables from the beginning", s.Slot, why)
}

// ensureSlot checks the slot, and creates it if it does not exist and nothing has been read yet.
func (s *setup) ensureSlot(ctx context.Context, begun bool) error {
	found, err := s.slot(ctx)
	if err != nil {
		return fmt.Errorf("cannot look up slot %s: %w", s.Slot, err)
	}
	switch {
	case !found.exists && begun:
		return s.lost("no longer exists")
	case !found.exists:
		if err := s.createSlot(ctx); err != nil {
			return err
		}
		if found, err = s.slot(ctx); err != nil {
			return fmt.Errorf("cannot look up slot %s: %w", s.Slot, err)
		}
	}
	switch {
	case found.walStatus == "lost":
		return s.lost("was invalidated by the server (" + strings.TrimSpace("wal_status lost "+found.invalidation) +
			")")
	case found.plugin != "pgoutput":
		return fmt.Errorf("cannot use slot %s: its output plugin is %s instead of pgoutput; choose "+
			"another logrepl.slotName", s.Slot,
			found.plugin)
	case found.db != s.database(ctx):
		return fmt.Errorf("cannot use slot %s: it belongs to database %s; choose another logrepl.slotName", s.Slot,
			found.db)
	case found.confirmed == "": // a snapshot taken now could miss commits before the start of the slot
		return fmt.Errorf("slot %s is still being created by process %s of the server, which waits for the end of "+
			"all open transactions", s.Slot, found.activePID)
	}
	return nil
}

func (s *setup) database(ctx context.Context) string {
	if r, err := pg.Row(ctx, s.conn, "SELECT current_database()"); err == nil && r != nil {
		return r[0]
	}
	return ""
}

func (s *setup) createSlot(ctx context.Context) error {
	sql := "SELECT pg_catalog.pg_create_logical_replication_slot($1, 'pgoutput')"
	if s.Failover {
		sql = "SELECT pg_catalog.pg_create_logical_replication_slot($1, 'pgoutput', false, false, true)"
	}
	_, err := pg.Rows(ctx, s.conn, sql, s.Slot)
	switch {
	case err == nil || pg.Code(err) == pg.CodeDuplicateObject:
		return nil
	case pg.Code(err) == pg.CodePrivilege:
		return fmt.Errorf("cannot create slot %s: %w: run ALTER ROLE … REPLICATION", s.Slot, err)
	case s.Failover && pg.Code(err) == pg.CodeNoFunction:
		return fmt.Errorf("cannot create slot %s: slot.failover needs PostgreSQL 17 or later", s.Slot)
	case pg.Code(err) == pg.CodeNotPrerequisite:
		return fmt.Errorf("cannot create slot %s: %w: set wal_level = logical in postgresql.conf "+
			"and restart the server",
			s.Slot, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot create slot %s: the server waits for the end of all open transactions, and one of "+
			"them ran for too long: %w", s.Slot, err)
	}
	return fmt.Errorf("cannot create slot %s: %w", s.Slot, err)
}

// copySlot creates the slot at the place of another slot.
func (s *setup) copySlot(ctx context.Context, from string) error {
	_, err := pg.Rows(ctx, s.conn, "SELECT pg_catalog.pg_copy_logical_replication_slot($1, $2)", from, s.Slot)
	if err != nil && pg.Code(err) != pg.CodeDuplicateObject {
		return fmt.Errorf("cannot copy slot %s to %s: %w", from, s.Slot, err)
	}
	return nil
}

// dropSlot removes the slot, and terminates the session that uses it.
func (s *setup) dropSlot(ctx context.Context) error {
	var wait common.Backoff
	for {
		found, err := s.slot(ctx)
		if err != nil || !found.exists {
			return err
		}
		if found.activePID != "0" {
			if _, err := pg.Rows(ctx, s.conn, "SELECT pg_catalog.pg_terminate_backend($1::int)",
				found.activePID); err != nil {
				return fmt.Errorf("cannot end the session that uses slot %s: %w", s.Slot, err)
			}
		}
		_, err = pg.Rows(ctx, s.conn, "SELECT pg_catalog.pg_drop_replication_slot($1)", s.Slot)
		switch c := pg.Code(err); {
		case err == nil || c == pg.CodeUndefinedObject:
			return nil
		case c != pg.CodeObjectInUse:
			return fmt.Errorf("cannot drop slot %s: %w", s.Slot, err)
		}
		if wait.Wait(ctx) != nil {
			return fmt.Errorf("cannot drop slot %s: %w", s.Slot, err)
		}
	}
}

// dropPublication removes the publication unless it belongs to another connector or role.
func (s *setup) dropPublication(ctx context.Context) error {
	p, err := s.publication(ctx)
	if err != nil || !p.exists || !p.owned || p.mark != nil && p.mark.Connector != s.connector {
		return err
	}
	if err := pg.Execute(ctx, s.conn, "DROP PUBLICATION IF EXISTS "+pg.Quote(s.Publication)); err != nil {
		return fmt.Errorf("cannot drop publication %s: %w", s.Publication, err)
	}
	return nil
}

// check returns an error if the server does not support logical replication.
func (s *setup) check(ctx context.Context) error {
	const oldest = 130000
	r, err := pg.Row(ctx, s.conn, "SELECT current_setting('wal_level'), current_setting('server_version_num'), "+
		"current_setting('server_version')")
	if err != nil {
		return fmt.Errorf("cannot query the settings of the server: %w", err)
	}
	if len(r) != 3 {
		return fmt.Errorf("cannot query the settings of the server: the answer has %d values instead of 3",
			len(r))
	}
	if v, _ := strconv.Atoi(r[1]); v < oldest {
		return fmt.Errorf("PostgreSQL %s is too old: upgrade to 13 or later", r[2])
	}
	if r[0] != "logical" {
		return fmt.Errorf("wal_level is %s: set wal_level = logical in postgresql.conf and restart the server", r[0])
	}
	return nil
}
