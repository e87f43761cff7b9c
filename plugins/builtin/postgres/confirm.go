package postgres

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pgoutput"
	"github.com/conduit-agent/conduit/plugins/record"
)

// confirmer knows what may be confirmed to the server: the end of the newest transaction of
// which all records are acknowledged, and all before it; with nothing outstanding what the
// server has sent. While rows of a snapshot are not acknowledged, nothing is: after a crash
// they are read again, and changes of rows read before come from the slot.
type confirmer struct {
	conduit pgoutput.LSN // of a change that Conduit's connector delivered last; what was committed before was, too

	mu           sync.Mutex
	at           pgoutput.LSN  // confirmed
	acked        place         // last acknowledged
	transactions []transaction // committed, and not confirmed; oldest first
	inSnapshot   bool          // rows are still to be handed on
	rows         int           // of snapshots, handed on and not acknowledged
	read         []string      // tables of which all rows were handed on
}

// transaction is one that the stream has handed on.
type transaction struct {
	commit, end pgoutput.LSN
	last        int64 // index of its last record; 0: it had none
}

// snapshot notes whether rows are to be read before the stream.
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

// snapshotRead notes that all rows of the tables were handed on.
func (c *confirmer) snapshotRead(tables []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inSnapshot = false
	c.read = append(c.read, tables...)
}

// settledTables returns the tables of which all rows are acknowledged, once.
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

// committed notes that a transaction was sent whole, of which records up to last were handed on.
func (c *confirmer) committed(commit, end pgoutput.LSN, last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end <= c.at {
		return
	}
	for _, t := range c.transactions {
		if t.commit == commit { // it came again after a loss of the connection
			return
		}
	}
	c.transactions = append(c.transactions, transaction{commit, end, last})
	c.advance()
}

// acknowledged notes that the records at these positions are settled.
func (c *confirmer) acknowledged(positions []record.Position) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range positions {
		if isSnapshot(p) {
			c.rows--
			continue
		}
		if i < len(positions)-1 && !isSnapshot(positions[len(positions)-1]) {
			continue // the last one says it all, but for rows
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

// idle notes that the server has sent everything up to end, between two transactions.
func (c *confirmer) idle(end pgoutput.LSN) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	if !c.inSnapshot && c.rows == 0 && len(c.transactions) == 0 {
		c.at = max(c.at, end)
	}
}

// confirmed returns the place up to which the server may forget.
func (c *confirmer) confirmed() pgoutput.LSN {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func isSnapshot(p record.Position) bool { return bytes.HasPrefix(p, []byte(`{"type":1`)) }

// lastPlace reads the place out of a position that appendStream made.
func lastPlace(p record.Position) (place, error) {
	rest, ok := bytes.CutPrefix(p, []byte(`{"type":2,"last_lsn":"`))
	lsn, rest, ok2 := bytes.Cut(rest, []byte(`","index":`))
	index, _, ok3 := bytes.Cut(rest, []byte(`,`))
	commit, err := pgoutput.ParseLSN(string(lsn))
	n, err2 := strconv.ParseInt(string(index), 10, 64)
	if !ok || !ok2 || !ok3 || err != nil || err2 != nil {
		return place{}, fmt.Errorf("cannot read the acknowledged position %q", p)
	}
	return place{commit, n}, nil
}
