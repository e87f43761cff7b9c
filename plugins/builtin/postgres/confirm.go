package postgres

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// confirmer determines the part of the log that the source may confirm to the server: up to the end of the newest
// transaction whose records are all acknowledged, or everything that the server has sent if nothing is outstanding. It
// confirms nothing while rows of a snapshot are unacknowledged: after a crash the source reads them again, and needs
// the changes of earlier rows from the slot.
type confirmer struct {
	conduit pg.LSN // last change delivered by Conduit's connector; earlier commits were delivered, too

	mu           sync.Mutex
	at           pg.LSN        // confirmed
	acked        place         // last acknowledged
	transactions []unconfirmed // oldest first
	inSnapshot   bool          // the source has yet to emit rows
	rows         int           // of snapshots, emitted and not acknowledged
	read         []string      // tables whose rows have all been emitted
}

// unconfirmed is a committed transaction that the stream has emitted, and that is not confirmed.
type unconfirmed struct {
	commit, end pg.LSN
	last        int64 // index of the last record; 0: no records
}

// snapshot records whether the source has yet to read rows before it streams.
func (c *confirmer) snapshot(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inSnapshot = on
}

func (c *confirmer) sentRows(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows += n
}

// snapshotRead records that the source has emitted all rows of the tables.
func (c *confirmer) snapshotRead(tables []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inSnapshot = false
	c.read = append(c.read, tables...)
}

// settledTables returns the tables whose rows are all acknowledged. It returns each table only once.
func (c *confirmer) settledTables() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inSnapshot || c.rows > 0 {
		return nil
	}
	read := c.read
	c.read = nil
	return read
}

// committed records a fully received transaction, whose records up to last were emitted.
func (c *confirmer) committed(commit, end pg.LSN, last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end <= c.at {
		return
	}
	for _, t := range c.transactions {
		if t.commit == commit { // the server sent it again after a lost connection
			return
		}
	}
	c.transactions = append(c.transactions, unconfirmed{commit, end, last})
	c.advance()
}

// acknowledged records that the records at these positions are settled.
func (c *confirmer) acknowledged(positions []record.Position) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range positions {
		if isSnapshot(p) {
			c.rows--
			continue
		}
		if i < len(positions)-1 && !isSnapshot(positions[len(positions)-1]) {
			continue // the last position covers all others except those of rows
		}
		at, err := lastPlace(p)
		if err != nil {
			return err
		}
		if at.commit > c.acked.commit || at.commit == c.acked.commit && at.index > c.acked.index {
			c.acked = at
		}
	}
	c.advance()
	return nil
}

// advance moves the confirmed place. The caller holds mu.
func (c *confirmer) advance() {
	if c.inSnapshot || c.rows > 0 {
		return
	}
	n := 0
	for ; n < len(c.transactions); n++ {
		t := c.transactions[n]
		if t.last > 0 && (t.commit > c.acked.commit || t.commit == c.acked.commit && t.last > c.acked.index) {
			break
		}
		c.at = max(c.at, t.end)
	}
	c.transactions = append(c.transactions[:0], c.transactions[n:]...)
}

// idle records that the server has sent everything up to end and that no transaction is open.
func (c *confirmer) idle(end pg.LSN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	if !c.inSnapshot && c.rows == 0 && len(c.transactions) == 0 {
		c.at = max(c.at, end)
	}
}

// confirmed returns the place up to which the server may discard its log.
func (c *confirmer) confirmed() pg.LSN {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func isSnapshot(p record.Position) bool { return bytes.HasPrefix(p, []byte(`{"type":1`)) }

// lastPlace parses the place in a position that appendStream made.
func lastPlace(p record.Position) (place, error) {
	rest, ok := bytes.CutPrefix(p, []byte(`{"type":2,"last_lsn":"`))
	lsn, rest, ok2 := bytes.Cut(rest, []byte(`","index":`))
	index, _, ok3 := bytes.Cut(rest, []byte(`,`))
	commit, err := pg.ParseLSN(string(lsn))
	n, err2 := strconv.ParseInt(string(index), 10, 64)
	if !ok || !ok2 || !ok3 || err != nil || err2 != nil {
		return place{}, fmt.Errorf("cannot parse acknowledged position %q", p)
	}
	return place{commit, n}, nil
}
