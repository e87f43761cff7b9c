package spoollog_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// memory is a Memory with space bytes.
type memory struct{ space, used atomic.Int64 }

func (m *memory) Take(n int) bool {
	if m.used.Load()+int64(n) > m.space.Load() {
		return false
	}
	m.used.Add(int64(n))
	return true
}

func (m *memory) Add(n int) { m.used.Add(int64(n)) }

func (m *memory) Room() int { return int(max(0, m.space.Load()-m.used.Load())) }

func (m *memory) Close() {}

// While there is memory, records of a hybrid log whose readers keep up wait in memory. Once there is none, they are
// written to disk at once. All reserved bytes are freed.
func TestHybridWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, t.TempDir())
		defer l.Close()
		r, err := l.Reader("r")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Attach()()
		m := &memory{}
		m.space.Store(1 << 20)
		l.SetMemory(m)
		if err := l.SetHybrid(time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := r.Acknowledge(0); err != nil {
			t.Fatal(err)
		}
		add(t, l, 0, 1) // on disk: no reader has kept up yet
		if err := r.Acknowledge(1); err != nil {
			t.Fatal(err)
		}
		written, began := l.Counts().Written, time.Now()
		frames, _, err := spoollog.Encode(numbered(1, 3))
		if err != nil {
			t.Fatal(err)
		}
		commit, err := l.Writer().Append(t.Context(), frames)
		if err != nil {
			t.Fatal(err)
		}
		if m.used.Load() == 0 || l.Counts().Written != written {
			t.Fatalf("%d bytes are counted, %d written", m.used.Load(), l.Counts().Written-written)
		}
		time.AfterFunc(time.Minute, func() { m.space.Store(0) })
		if err := commit.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute || l.Counts().Written == written ||
			m.used.Load() != 0 {
			t.Errorf("after %v %d bytes are written, %d counted", took, l.Counts().Written-written, m.used.Load())
		}
		if _, err := l.Writer().Append(t.Context(), frames); err != nil || !l.Short() {
			t.Errorf("it has memory: %v", err)
		}
	})
}
