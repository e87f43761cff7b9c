package pgkv

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// poll is the longest time between two polls. A notification triggers an earlier one, at most once per pause.
// Notifications are optional: a pooler may not pass them on.
const (
	poll  = 500 * time.Millisecond
	pause = 50 * time.Millisecond
)

// Watch calls observe with the entry of every key, without its state, then calls synced, and then calls observe with
// the latest entry of each key that changes. It returns an error when it cannot continue. A new call starts from the
// beginning.
func (s *Store) Watch(ctx context.Context, observe func(protocol.Entry), synced func()) error {
	incarnation := s.incarnation.Load()
	if incarnation == nil {
		return errNotReady
	}
	conn, err := s.options.connect(ctx)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	if err := pg.Execute(ctx, conn, "LISTEN "+s.sql.channel); err != nil {
		return fmt.Errorf("cannot watch PostgreSQL: %w", err)
	}
	w := watcher{conn: conn, sql: s.sql.watch, incarnation: *incarnation, since: []byte("0"),
		shown: map[string]uint64{}}
	for {
		if err := w.poll(ctx, observe); err != nil {
			return fmt.Errorf("cannot watch PostgreSQL: %w", err)
		}
		if synced != nil {
			synced()
			synced = nil
		}
		if err := w.wait(ctx); err != nil {
			return fmt.Errorf("cannot watch PostgreSQL: %w", err)
		}
	}
}

type watcher struct {
	conn        *pgconn.PgConn
	sql         string
	incarnation string
	since       []byte            // oldest transaction that the last poll may not have seen
	shown       map[string]uint64 // revisions by key
}

// poll shows the changes since the last poll. It fails if the table was replaced.
func (w *watcher) poll(ctx context.Context, observe func(protocol.Entry)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := query(ctx, w.conn, 4, w.sql, w.since)
	if err != nil {
		return err
	}
	is := slices.IndexFunc(rows, func(row [][]byte) bool { return string(row[0]) == incarnationKey })
	if is < 0 || string(rows[is][1]) != w.incarnation {
		return errAnother
	}
	for i, row := range rows {
		w.since = row[3]
		if i == is {
			continue
		}
		e := protocol.Entry{Key: string(row[0]), Value: row[1]}
		if e.Revision, err = strconv.ParseUint(string(row[2]), 10, 64); err != nil {
			return err
		}
		if w.shown[e.Key] != e.Revision {
			w.shown[e.Key] = e.Revision
			observe(e)
		}
	}
	return nil
}

// wait returns after a notification, or when the next poll is due.
func (w *watcher) wait(ctx context.Context) error {
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, poll)
	defer cancel()
	err := w.conn.WaitForNotification(limit)
	if err != nil && (ctx.Err() != nil || limit.Err() == nil) {
		return err
	}
	select {
	case <-time.After(pause - time.Since(began)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
