package pgkv

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// minVersion is the first server version with 64-bit transaction ids.
const minVersion = 130000

// wanted lists the columns of the table in the order of their names.
const wanted = "expires_at timestamp with time zone, key text, revision bigint, state bytea, value text, xid xid8"

// Ready prepares the table of the cluster. It creates the table if there is none, and otherwise verifies it. An error
// of type *UnfitError is permanent.
func (s *Store) Ready(ctx context.Context) error {
	return s.sessions.use(ctx, func(conn *pgconn.PgConn) error {
		there, err := s.check(ctx, conn)
		if err == nil && !there {
			if err = pg.Execute(ctx, conn, s.sql.make); err == nil {
				_, err = s.check(ctx, conn)
			}
		}
		if err == nil {
			err = s.identify(ctx, conn)
		}
		if err != nil {
			return fmt.Errorf("cannot open the table %s: %w", s.sql.table, err)
		}
		return nil
	})
}

// Check returns the error that Ready would return, without creating a table.
func (s *Store) Check(ctx context.Context) error {
	return s.sessions.use(ctx, func(conn *pgconn.PgConn) error {
		_, err := s.check(ctx, conn)
		return err
	})
}

// check reports whether the table exists. It returns an error if the table or the server is unfit.
func (s *Store) check(ctx context.Context, conn *pgconn.PgConn) (there bool, err error) {
	server, err := pg.Row(ctx, conn, `SELECT current_setting('server_version_num')::int >= $1::int,
	current_setting('server_version'),
	current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
	current_setting('server_encoding'), pg_is_in_recovery()`, fmt.Sprint(minVersion))
	if err != nil {
		return false, err
	}
	if wrong := unfitServer(server); len(wrong) > 0 {
		return false, &UnfitError{wrong}
	}
	if server[6] == "t" {
		return false, fmt.Errorf("the server is a standby: %w", pg.ErrAgain)
	}
	if found, err := pg.Row(ctx, conn, s.sql.find); err != nil || found == nil {
		return false, err
	}
	table, err := pg.Row(ctx, conn, s.sql.columns)
	if err != nil {
		return false, err
	}
	if wrong := s.unfitTable(table); len(wrong) > 0 {
		return false, &UnfitError{wrong}
	}
	return true, nil
}

// identify remembers the incarnation of the table, and deletes sessions that expired more than a day ago.
func (s *Store) identify(ctx context.Context, conn *pgconn.PgConn) error {
	incarnation, err := pg.Row(ctx, conn, "SELECT value FROM "+s.sql.table+" WHERE key = $1", incarnationKey)
	if err != nil {
		return err
	}
	if incarnation == nil {
		return &UnfitError{[]string{"the table " + s.sql.table + " has no row \"" + incarnationKey +
			"\", which is created together with it"}}
	}
	if err := pg.Execute(ctx, conn, "DELETE FROM "+s.sql.table+
		" WHERE expires_at < clock_timestamp() - interval '1 day'"); err != nil {
		return err
	}
	s.incarnation.CompareAndSwap(nil, &incarnation[0])
	return nil
}

// unfitServer lists the problems of a server.
func unfitServer(is []string) (wrong []string) {
	check := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	check(is[0] == "t", "the server has version "+is[1]+", but 13 or later is required")
	check(is[2] == "on" && is[3] == "on",
		"the server must keep acknowledged writes after a power cut (fsync and full_page_writes must be on)")
	check(is[4] != "off", "the server must acknowledge only writes that are on its disk (synchronous_commit is off; "+
		"ALTER "+
		"ROLE … SET synchronous_commit = on)")
	check(is[5] == "UTF8", "the database must have the encoding UTF8, but has "+is[5])
	return wrong
}

// unfitTable lists the problems of a table.
func (s *Store) unfitTable(is []string) (wrong []string) {
	check := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, "the table "+s.sql.table+" "+what)
		}
	}
	check(is[0] == "r", "must be a table")
	check(is[1] == "p", "must be logged: neither unlogged nor temporary")
	check(is[2] == "f" && is[3] == "f", "must have neither row security nor triggers")
	check(is[4] == wanted, "must have the columns "+wanted)
	check(is[5] == "key", "must have the primary key (key)")
	return wrong
}
