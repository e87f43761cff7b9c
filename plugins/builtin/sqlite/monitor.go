package sqlite

import (
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
)

// monitor measures the lag of the source.
type monitor struct {
	mu        sync.Mutex
	acked     position  // of the last acknowledged record
	removed   position  // acknowledged, and removed from the database
	settledAt time.Time // time of the removal
	last      int64     // number of the last change
	at        time.Time // time of the measurement
	newest    time.Time // time of the newest change read
	current   bool      // everything has been read
	lost      string    // why the database cannot be read
	snapshots []progress.Snapshot
	unique    []string // tables with a unique index beside the key, as last logged

	skips progress.Skips // tables left out; has its own lock
}

const (
	settleEvery  = 500 * time.Millisecond
	measureEvery = time.Second
)

func (m *monitor) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *monitor) fails(err error) {
	m.set(func() {
		m.current = false
		if m.lost == "" {
			m.lost = fmt.Sprintf("cannot read the database since %s: %v", time.Now().UTC().Format(time.RFC3339), err)
		}
	})
}

// toSettle returns the acknowledged position, the time of the last measurement, and whether a removal of acknowledged
// changes is due.
func (m *monitor) toSettle() (acked position, measured time.Time, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	due = (m.acked.ID > m.removed.ID || finished(m.acked) > finished(m.removed)) &&
		time.Since(m.settledAt) >= settleEvery
	return m.acked, m.at, due
}

func (m *monitor) settled(p position) { m.set(func() { m.removed, m.settledAt = p, time.Now() }) }

func (m *monitor) measured(last int64) { m.set(func() { m.last, m.at = last, time.Now() }) }

func (m *monitor) report() progress.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	behind := max(0, m.last-m.acked.ID)
	r := progress.Report{Records: &behind, At: m.at, Snapshots: append([]progress.Snapshot(nil), m.snapshots...),
		Warning: m.lost, Skipped: m.skips.List()}
	r.SetAge(m.newest, m.current)
	return r
}
