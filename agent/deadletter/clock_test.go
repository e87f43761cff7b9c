package deadletter_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/spec"
)

// clocks holds the clocks of a host.
type clocks struct {
	set     time.Time     // wall clock at the start, plus later changes
	running time.Duration // since the start
}

func (c *clocks) read() (time.Time, time.Duration) { return c.set.Add(c.running), c.running }

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// aged is a store that keeps dead letters for 30 days, on a host with a wrong clock.
type aged struct {
	*testing.T
	*clocks
	store *deadletter.Store
	path  string
	n     int // number of dead letters so far
}

func newAged(t *testing.T, begin time.Time) *aged {
	a := &aged{T: t, clocks: &clocks{set: begin}, path: filepath.Join(t.TempDir(), "refused.db")}
	a.start()
	return a
}

func (a *aged) start() {
	a.store = open(a.T, a.path, deadletter.Limits{Age: 30 * day})
	a.store.Clock.Read = a.read
	a.store.Clock.Compare()
}

// restart restarts the host with its clock moved by set.
func (a *aged) restart(set time.Duration) {
	must(a, a.store.Close())
	a.clocks = &clocks{set: a.set.Add(a.running + set)}
	a.start()
}

// refuse refuses a record after each of several pauses.
func (a *aged) refuse(times int, pause time.Duration) {
	for range times {
		a.running += pause
		keep(a, a.store, declared("p"), deadLetter(a.n, "p:dst", "no"))
		must(a, a.store.Flush(a.Context()))
		a.n++
	}
}

// expect checks the ages of the remaining dead letters in days, within a minute.
func (a *aged) expect(days ...int) {
	a.Helper()
	page, err := a.store.List(a.Context(), "p", spec.DeadLetterFilter{}, 0, 100)
	must(a, err)
	now, _ := a.read()
	var got []int
	for i, l := range page.DeadLetters {
		got = append(got, int((now.Sub(l.Time)+time.Minute)/day))
		if age := now.Sub(l.Time); age < -time.Minute || (age+time.Minute)%day > 2*time.Minute {
			a.Errorf("one is %v old", age)
		}
		if i > 0 && !l.Time.Before(page.DeadLetters[i-1].Time) {
			a.Errorf("times do not ascend: %v, %v", l.Time, page.DeadLetters[i-1].Time)
		}
	}
	if !slices.Equal(got, days) {
		a.Errorf("they are %v days old, want %v", got, days)
	}
}

var today = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestAgesFollowTheClock checks that dead letters age with the time that passes, whatever the clock of the host is set
// to.
func TestAgesFollowTheClock(t *testing.T) {
	t.Run("a host that begins in 1970", func(t *testing.T) {
		a := newAged(t, time.Unix(60, 0))
		a.refuse(3, day)
		a.set = a.set.Add(56 * year)
		a.refuse(1, day)
		a.expect(0, 1, 2, 3)
		a.refuse(1, 28*day)
		a.expect(0, 28, 29, 30)
	})
	t.Run("its clock is set while no agent runs", func(t *testing.T) {
		a := newAged(t, time.Unix(60, 0))
		a.refuse(3, day)
		a.restart(56 * year)
		a.refuse(1, 2*time.Hour)
		a.expect(0, 0, 1, 2)
	})
	t.Run("fifty years ahead, and back", func(t *testing.T) {
		a := newAged(t, today)
		a.refuse(2, day)
		a.set = a.set.Add(50 * year)
		a.refuse(2, day)
		a.expect(0, 1, 2, 3)
		a.set = a.set.Add(-50 * year)
		a.refuse(1, day)
		a.expect(0, 1, 2, 3, 4)
	})
	t.Run("a start fifty years ahead", func(t *testing.T) {
		a := newAged(t, today)
		a.refuse(2, day)
		a.restart(50 * year)
		a.refuse(1, 10*time.Second)
		a.set = a.set.Add(-50*year - 50*time.Second)
		a.refuse(1, day)
		a.expect(0, 1, 1, 2)
	})
	t.Run("back to a time before all", func(t *testing.T) {
		a := newAged(t, today)
		a.refuse(2, day)
		a.set = a.set.Add(-50 * year)
		a.refuse(1, day)
		a.expect(0, 1, 2)
	})
}
