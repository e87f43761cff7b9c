package sink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// ledger keeps the positions of the records written last, in the transaction that writes them.
// After a restart an agent sends again what was in flight, and nothing else: those that the
// ledger has are skipped. A row has the hashes of one transaction.
type ledger struct {
	table     string // in SQL
	connector string // id

	known   map[hash]struct{} // written before it was opened; nil when they cannot come again
	batches []ledgerBatch     // kept, oldest first
	kept    int               // hashes in batches
	next    int64             // number of the next batch
	since   int               // records written since it was opened
}

type hash [16]byte

type ledgerBatch struct {
	number int64
	n      int
}

// ledgerWindow is more than an agent ever has in flight of one source.
const ledgerWindow = 1 << 18

func hashOf(r *record.Record) (h hash) {
	source := r.Metadata.Get(record.KeySourceConnectorID)
	sum := sha256.Sum256(append(append([]byte(source), 0), r.Position.Identity()...))
	copy(h[:], sum[:])
	return h
}

// open makes the table if it does not exist, and reads the ledger.
func (l *ledger) open(ctx context.Context, conn *pgconn.PgConn) error {
	// Without the right to make tables, one that is there already must do.
	err := pg.Execute(ctx, conn, "CREATE TABLE IF NOT EXISTS "+l.table+" (connector text NOT NULL, batch bigint NOT NULL, hashes bytea NOT NULL, PRIMARY KEY (connector, batch))")
	if err != nil && pg.Code(err) != pg.CodePrivilege {
		return fmt.Errorf("cannot make the position table %s: %w", l.table, err)
	}
	found, err := pg.Rows(ctx, conn, "SELECT batch, encode(hashes, 'hex') FROM "+l.table+" WHERE connector = $1 ORDER BY batch", l.connector)
	if err != nil {
		return fmt.Errorf("cannot read the position table %s: %w", l.table, err)
	}
	l.known = map[hash]struct{}{}
	for _, r := range found {
		number, _ := strconv.ParseInt(r[0], 10, 64)
		hashes, _ := hex.DecodeString(r[1])
		for i := 0; i+len(hash{}) <= len(hashes); i += len(hash{}) {
			l.known[hash(hashes[i:i+len(hash{})])] = struct{}{}
		}
		n := len(hashes) / len(hash{})
		l.batches, l.kept, l.next = append(l.batches, ledgerBatch{number, n}), l.kept+n, number+1
	}
	return nil
}

func (l *ledger) has(h hash) bool {
	_, ok := l.known[h]
	return ok
}

// statement returns what notes the hashes of a transaction, and forgets those that are too old.
func (l *ledger) statement(hashes []byte) string {
	sql := fmt.Sprintf("INSERT INTO %s (connector, batch, hashes) VALUES (%s, %d, '\\x%x')", l.table, pg.Literal(l.connector), l.next, hashes)
	if old := l.old(len(hashes) / len(hash{})); old > 0 {
		sql += fmt.Sprintf("; DELETE FROM %s WHERE connector = %s AND batch <= %d", l.table, pg.Literal(l.connector), l.batches[old-1].number)
	}
	return sql
}

// old returns how many of the batches need not be kept once n more hashes are noted.
func (l *ledger) old(n int) int {
	kept, old := l.kept+n, 0
	for old < len(l.batches) && kept-l.batches[old].n >= ledgerWindow {
		kept -= l.batches[old].n
		old++
	}
	return old
}

// noted takes note that the transaction with n hashes was committed.
func (l *ledger) noted(n int) {
	for _, b := range l.batches[:l.old(n)] {
		l.kept -= b.n
	}
	l.batches = append(l.batches[l.old(n):], ledgerBatch{l.next, n})
	l.next++
	l.kept += n
	if l.since += n; l.since > ledgerWindow {
		l.known = nil // what was in flight came long ago
	}
}

// forget removes the connector from the table, if there is one.
func (l *ledger) forget(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := pg.Rows(ctx, conn, "DELETE FROM "+l.table+" WHERE connector = $1", l.connector)
	if err != nil && pg.Code(err) != pg.CodeUndefinedTable {
		return fmt.Errorf("cannot remove positions from %s: %w", l.table, err)
	}
	return nil
}
