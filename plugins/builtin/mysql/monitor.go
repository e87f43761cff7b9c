package mysql

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// monitor measures the lag of the source.
type monitor struct {
	mu       sync.Mutex
	kept     record.Position // a restart resumes from here
	file     string          // log file and offset up to which the source has read
	pos      uint64
	behind   *int64
	at       time.Time // time of the measurement
	newest   time.Time // commit time of the newest transaction
	current  bool      // the server has no more changes
	lost     string    // why the connection is lost
	old      string    // problem with the place in the log
	snapshot *progress.Snapshot
}

func (m *monitor) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// keep records the position from which a restart resumes.
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

// committed records the arrival of a transaction.
func (m *monitor) committed(at time.Time, file string, pos uint64) {
	m.set(func() { m.newest, m.current, m.file, m.pos = at, false, file, pos })
}

// caughtUp records that the source has read the whole log, up to a place.
func (m *monitor) caughtUp(file string, pos uint64) {
	m.set(func() { m.current, m.file, m.pos = true, file, pos })
}

// reads records the progress of a snapshot; nil means that no snapshot is running.
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

// watch measures the lag periodically until ctx ends.
func (s *Source) watch(ctx context.Context) {
	tick := time.NewTicker(s.settings.Heartbeat)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, max(3*s.settings.Heartbeat, time.Second))
		err := s.measure(bounded)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Debug("cannot measure the lag of the source", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// measure compares the place of the source with the files of the log.
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
	at, _ := parsePosition(m.kept) // written by this source, so it is valid
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
		m.old = fmt.Sprintf("the last record is in the oldest of %d binary log files, %s: when the server removes "+
			"the file, a restart misses changes; raise expire_logs_days or binlog_expire_logs_seconds", len(all),
			at.File)
	}
	if found < 0 {
		m.behind = nil
		return nil
	}
	behind = max(0, behind)
	m.behind, m.at = &behind, time.Now()
	return nil
}
