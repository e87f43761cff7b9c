package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// explain adds a remedy to an error of replication.
func (st *stream) explain(ctx context.Context, err *pgconn.PgError) error {
	wrapped := fmt.Errorf("cannot read changes: %w", err)
	switch {
	case err.Code == pg.CodeObjectInUse:
		return st.inUse(ctx, wrapped)
	case err.Code == pg.CodeUndefinedObject && strings.Contains(err.Message, "replication slot"):
		return st.settings.lost("no longer exists")
	case err.Code == pg.CodeNotPrerequisite &&
		(strings.Contains(err.Message, "slot") || strings.Contains(err.Detail, "slot")):
		return st.settings.lost("was invalidated by the server (" + strings.TrimSpace(err.Message+" "+err.Detail) + ")")
	case strings.Contains(err.Message, "publication") && strings.Contains(err.Message, "does not exist"):
		return fmt.Errorf("%w: publication %s was dropped, or created after the position of slot %s; if it is new, let "+
			"the pipeline catch up with its former publication, then set this one and restart the pipeline; if it was "+
			"dropped, changes in between cannot be read, and a new snapshot is needed: delete the pipeline and declare "+
			"it again", wrapped, st.settings.Publication, st.settings.Slot)
	}
	return wrapped
}

// slotReleaseTimeout is the time in which a former session of this source must release the slot.
const slotReleaseTimeout = 5 * time.Second

const slotUserQuery = `
SELECT coalesce(s.active_pid, 0), coalesce(a.application_name, ''), coalesce(host(a.client_addr), 'a local socket')
FROM pg_catalog.pg_replication_slots s LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid
WHERE s.slot_name = $1`

// inUse handles a slot that is in use: it terminates an earlier session of this source, and briefly waits for any other
// session.
func (st *stream) inUse(ctx context.Context, cause error) error {
	conn, err := pg.ConnectGuarded(ctx, st.settings.URL, st.settings.Timeout, nil)
	if err != nil {
		return err
	}
	defer pg.Close(conn)
	deadline := time.Now().Add(slotReleaseTimeout)
	for wait := (common.Backoff{}); ; {
		r, err := pg.Row(ctx, conn, slotUserQuery, st.settings.Slot)
		if err != nil {
			return fmt.Errorf("cannot look up slot %s: %w", st.settings.Slot, err)
		}
		if r == nil || r[0] == "0" {
			return pg.ErrAgain
		}
		if slices.Contains(st.pids, idOf(r[0])) {
			if _, err := pg.Rows(ctx, conn, "SELECT pg_catalog.pg_terminate_backend($1::int)", r[0]); err != nil {
				return fmt.Errorf("cannot terminate the earlier session of this source: %w", err)
			}
		} else if time.Now().After(deadline) {
			return &inUseError{fmt.Sprintf("slot %s is in use by %q from %s (process %s of the server), and "+
				"a slot serves one source: set logrepl.slotName and logrepl.publicationName of each "+
				"pipeline to different names", st.settings.Slot,
				r[1], r[2], r[0]), cause}
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// maxSessions is the number of sessions that a source remembers.
const maxSessions = 8

// idOf parses the id of a session or an object.
func idOf(text string) uint32 {
	pid, _ := strconv.ParseUint(text, 10, 32)
	return uint32(pid)
}

// inUseError does not count as a network error, so it stops the source.
type inUseError struct {
	message string
	cause   error
}

// Error implements error.
func (e *inUseError) Error() string { return e.message }

// Unwrap returns the error of the server.
func (e *inUseError) Unwrap() error { return e.cause }
