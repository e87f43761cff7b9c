package mysql

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// monitor knows how far the source is behind.
type monitor struct {
	mu       sync.Mutex
	kept     record.Position // from which a restart goes on
	file     string          // of the log, and the place in it up to which it was read
	pos      uint64
	behind   *int64
	at       time.Time // when that was measured
	newest   time.Time // time of the transaction that came last
	current  bool      // the server has no more
	lost     string    // why there is no connection
	old      string    // what is wrong with the place
	snapshot *progress.Snapshot
}

func (m *monitor) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// keep notes the position from which a restart goes on.
func (m *monitor) keep(p record.Position) { m.set(func() { m.kept = p }) }

func (m *monitor) connected() { m.set(func() { m.lost = "" }) }

func (m *monitor) disconnected(err error) {
	m.set(func() {
		m.current = false
		if m.lost == "" {
			m.lost = fmt.Sprintf("not connected since %s: %v", time.Now().UTC().Format(time.RFC3339), err)
		}
	})
}

// committed notes that a transaction came.
func (m *monitor) committed(at time.Time, file string, pos uint64) {
	m.set(func() { m.newest, m.current, m.file, m.pos = at, false, file, pos })
}

// caughtUp notes that the server has sent all it has, up to a place.
func (m *monitor) caughtUp(file string, pos uint64) {
	m.set(func() { m.current, m.file, m.pos = true, file, pos })
}

// reads notes how far a table is read; nil: none is.
func (m *monitor) reads(s *progress.Snapshot) { m.set(func() { m.snapshot = s }) }

func (m *monitor) report() progress.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := progress.Report{At: m.at, Bytes: m.behind, Warning: m.lost}
	r.SetAge(m.newest, m.current)
	if m.snapshot != nil {
		r.Snapshots = []progress.Snapshot{*m.snapshot}
	}
	r.Warn(m.old)
	return r
}

// watch measures, again and again, how far the source is behind. It ends with ctx.
func (s *Source) watch(ctx context.Context) {
	tick := time.NewTicker(s.settings.Heartbeat)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, max(3*s.settings.Heartbeat, time.Second))
		err := s.measure(bounded)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Debug("cannot measure how far the source is behind", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// measure compares the place with the files of the log.
func (s *Source) measure(ctx context.Context) error {
	info := serverInfo{}
	all, err := info.logs(ctx, s.db)
	if err != nil {
		return err
	}
	m := &s.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	var behind int64
	found, kept := -1, -1
	at, _ := parsePosition(m.kept) // the source's own
	for i, f := range all {
		if f.name == at.File {
			kept = i
		}
		switch {
		case f.name == m.file:
			found, behind = i, int64(f.size)-int64(m.pos)
		case found >= 0:
			behind += int64(f.size)
		}
	}
	m.old = ""
	if kept == 0 && len(all) > 2 {
		m.old = fmt.Sprintf("the last record is of the oldest of %d files of the binary log, %s: once the server removes it, a restart misses changes: raise expire_logs_days or binlog_expire_logs_seconds", len(all), at.File)
	}
	if found < 0 {
		m.behind = nil
		return nil
	}
	behind = max(0, behind)
	m.behind, m.at = &behind, time.Now()
	return nil
}
