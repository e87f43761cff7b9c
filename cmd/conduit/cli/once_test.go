package cli

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/spec"
)

// onceScene is a pipeline. Its state and lag are functions of the time since it began.
type onceScene struct {
	state func(time.Duration) spec.State
	lag   func(time.Duration) measure.Lag
}

func onceRuns(time.Duration) spec.State {
	return spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1}
}

// onceReading returns a source that reads a record each second for this duration, and never knows its end.
func onceReading(long time.Duration) func(time.Duration) measure.Lag {
	return func(at time.Duration) measure.Lag {
		n := uint64(min(at, long) / time.Second)
		return measure.Lag{Read: n, Acked: n, OpenSince: time.Unix(1, 0)}
	}
}

func TestOnceWaits(t *testing.T) {
	zero, some := int64(0), int64(5)
	for name, c := range map[string]struct {
		onceScene
		want    time.Duration // until it rests
		applied bool
	}{
		"idle": {onceScene{onceRuns, onceReading(7 * time.Second)}, 17 * time.Second, true},
		"gaps shorter than idle": {onceScene{onceRuns,
			func(at time.Duration) measure.Lag { return onceReading(time.Minute)(at.Truncate(8 * time.Second)) }},
			74 * time.Second, true},
		"at its end": {onceScene{onceRuns, func(at time.Duration) measure.Lag {
			l := onceReading(0)(at)
			l.Behind = progress.Report{Bytes: &zero}
			return l
		}}, time.Second, true},
		"behind": {onceScene{onceRuns, func(at time.Duration) measure.Lag {
			l := onceReading(0)(at)
			l.Behind = progress.Report{Bytes: &some}
			return l
		}}, 10 * time.Second, true},
		"a record is not settled": {onceScene{onceRuns, func(at time.Duration) measure.Lag {
			l := onceReading(0)(at)
			l.OldestUnacked = max(0, 30*time.Second-at)
			return l
		}}, 40 * time.Second, true},
		"not opened": {onceScene{onceRuns, func(at time.Duration) measure.Lag {
			l := onceReading(0)(at)
			if at < 20*time.Second {
				l.OpenSince = time.Time{}
			}
			return l
		}}, 30 * time.Second, true},
		"degraded": {onceScene{func(time.Duration) spec.State { return spec.State{Phase: spec.PhaseDegraded} },
			onceReading(0)},
			0, false},
		"recovers": {onceScene{func(at time.Duration) spec.State {
			if at < 5*time.Second {
				return spec.State{Phase: spec.PhaseRecovering}
			}
			return onceRuns(at)
		}, onceReading(0)}, 15 * time.Second, true},
		"rolled back": {onceScene{func(time.Duration) spec.State {
			return spec.State{Phase: spec.PhaseRunning, RunningGeneration: 7,
				LastAttempt: &spec.Attempt{Generation: 1, Error: "no"}}
		}, onceReading(0)}, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkOnce(t, c.onceScene, c.want, c.applied) })
		})
	}
}

// waitForOnce returns a onceWait for the scene.
func waitForOnce(s onceScene) *onceWait {
	begin := time.Now()
	return &onceWait{
		Idle:    10 * time.Second,
		Scanned: func(context.Context) error { return nil },
		Declared: func(context.Context) ([]spec.Declaration, error) {
			return []spec.Declaration{
				{Pipeline: spec.Pipeline{ID: "p", Status: spec.StatusRunning}, Generation: 1},
				{Pipeline: spec.Pipeline{ID: "still", Status: spec.StatusStopped}, Generation: 1},
				{Pipeline: spec.Pipeline{ID: "gone", Status: spec.StatusRunning}, Withdrawn: begin},
			}, nil
		},
		State: func(string) (spec.State, bool) { return s.state(time.Since(begin)), true },
		Lags:  func(string) map[string]measure.Lag { return map[string]measure.Lag{"p:in": s.lag(time.Since(begin))} },

		Complete: func(string) {},
	}
}

func checkOnce(t *testing.T, s onceScene, want time.Duration, applied bool) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all, err := waitForOnce(s).Run(ctx)
	if took := time.Since(begin); err != nil || took < want-time.Second || took > want+time.Second {
		t.Errorf("rests after %v, %v, want %v", took, err, want)
	}
	if len(all) != 1 || all[0].ID != "p" || all[0].Applied != applied {
		t.Errorf("rests: %+v, want p, applied %v", all, applied)
	}
}

// Incomplete records, batches and windows are completed before a pipeline rests.
func TestOnceCompletes(t *testing.T) {
	zero, some := int64(0), int64(5)
	for name, at := range map[string]*int64{"at its end": &zero, "behind": &some} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				completed, batch := 0, uint64(0)
				lag := func(time.Duration) measure.Lag {
					l := measure.Lag{Read: 10 + min(batch, 1), Acked: 10 + batch, OpenSince: time.Unix(1, 0),
						Behind: progress.Report{Bytes: at}}
					if l.Acked < 12 { // a batch and the last line wait
						l.OldestUnacked = time.Second
					}
					return l
				}
				w := waitForOnce(onceScene{onceRuns, lag})
				w.Complete = func(string) { completed++; batch = 2 }
				all, err := w.Run(t.Context())
				if err != nil || completed != 2 || (len(all[0].Unread) == 0) != (at == &zero) {
					t.Errorf("completed %d times, %+v, %v", completed, all, err)
				}
			})
		})
	}
}

// A source may find its end only after a pause, and may find unread data once it is told that no more comes.
func TestOnceNoticesWhatCompletingFinds(t *testing.T) {
	for _, late := range []time.Duration{0, 700 * time.Millisecond, 1500 * time.Millisecond, 9900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var told atomic.Bool
			starts := func(at time.Duration) spec.State {
				if at < time.Second {
					return spec.State{Phase: spec.PhaseRecovering}
				}
				return onceRuns(at)
			}
			w := waitForOnce(onceScene{starts, func(at time.Duration) measure.Lag {
				bytes := int64(0)
				switch {
				case at-time.Second < late:
					bytes = 5
				case told.Load():
					bytes = 7
				}
				return measure.Lag{OpenSince: time.Unix(1, 0), Behind: progress.Report{Bytes: &bytes}}
			}})
			w.Complete = func(string) { time.AfterFunc(50*time.Millisecond, func() { told.Store(true) }) }
			all, err := w.Run(t.Context())
			if err != nil || len(all) != 1 || len(all[0].Unread) != 1 {
				t.Errorf("the end is found after %v: %+v, %v, want unread bytes", late, all, err)
			}
		})
	}
}

// TestOnceReportsUnreadData reports the known unread data of sources.
func TestOnceReportsUnreadData(t *testing.T) {
	zero, some, now, late := int64(0), int64(5), 0.0, 7.0
	for name, c := range map[string]struct {
		report  progress.Report
		unread  string
		endless bool
	}{
		"at its end": {progress.Report{Bytes: &zero}, "", false},
		"bytes":      {progress.Report{Bytes: &some}, "source p:in has 5 unread bytes", false},
		"records": {progress.Report{Records: &some}, "source p:in has 5 unread records",
			false},
		"of others": {progress.Report{Bytes: &some, Seconds: &now}, "", false},
		"seconds":   {progress.Report{Seconds: &late}, "source p:in is 7 s behind", false},
		"current":   {progress.Report{Seconds: &now}, "", false},
		"a snapshot": {progress.Report{Bytes: &zero, Snapshots: []progress.Snapshot{{Of: "orders"}}}, "source p:in " +
			"has read only part of orders", false},
		"not connected": {progress.Report{Warning: "connection refused"}, "source p:in: connection refused",
			false},
		"a command that runs": {progress.Report{Unfinished: "its command has not ended"}, "source p:in may have more " +
			"to read: its command has not ended", false},
		"nothing known": {progress.Report{}, "", true},
		"a server":      {progress.Report{Records: &zero, Endless: true}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, err := waitForOnce(onceScene{onceRuns, func(time.Duration) measure.Lag {
					return measure.Lag{Read: 1, Acked: 1, OpenSince: time.Unix(1, 0), Behind: c.report}
				}}).Run(t.Context())
				if err != nil || strings.Join(all[0].Unread, "; ") != c.unread ||
					(len(all[0].Endless) > 0) != c.endless {
					t.Errorf("%+v, %v", all, err)
				}
			})
		})
	}
}

func TestOnceEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := &onceWait{
			Idle:    time.Second,
			Scanned: func(context.Context) error { return nil },
			Declared: func(context.Context) ([]spec.Declaration, error) {
				return []spec.Declaration{{Pipeline: spec.Pipeline{ID: "p", Status: spec.StatusRunning}}}, nil
			},
			State: func(string) (spec.State, bool) { return spec.State{Phase: spec.PhaseStarting}, true },
		}
		if all, err := w.Run(ctx); err == nil {
			t.Errorf("a pipeline that never started rests: %v", all)
		}
	})
}
