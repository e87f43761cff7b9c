package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// silent is a store that answers no write while it is off.
type silent struct {
	memory
	off atomic.Bool
}

func (s *silent) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	if s.off.Load() {
		<-ctx.Done()
		return protocol.Outcome{Result: protocol.Unknown}
	}
	return s.memory.Write(ctx, w)
}

// pausing is a store that pauses the member that watches it at an entry of a given key, like a paused process.
type pausing struct {
	key string
	on  chan struct{}
}

func (p *pausing) Note(e protocol.Entry) bool {
	if strings.HasPrefix(e.Key, p.key) {
		<-p.on
		return true
	}
	return false
}

// TestHold uses a store that answers nothing. A strict pipeline stops writing once a save is overdue or the session is
// over; a relaxed pipeline keeps writing. A member that was paused does not write before it has noticed the pause.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const strict, relaxed = "strict", "relaxed"
		store, pause := &silent{}, &pausing{"pause", make(chan struct{})}
		lost := make(chan string, 10)
		m := &cluster.Member{
			Store: store, Self: protocol.Session{Agent: "a"}, Timing: protocol.TimingOf(20 * time.Second),
			Log:    slog.New(slog.DiscardHandler),
			Adopt:  func(context.Context, string, []byte) error { return nil },
			Placed: func(string) {},
			Lost:   func(id string) { lost <- id },
			Idle:   func(context.Context, string) bool { return true },
			Notes:  []cluster.Noter{pause},
		}
		go func() { _ = m.Run(t.Context()) }()
		m.Declare(t.Context(), protocol.Declared{Run: map[string]protocol.Declaration{strict: {Digest: "d"},
			relaxed: {Digest: "d", Relaxed: true}}})
		time.Sleep(time.Minute)
		over := errors.New("the run is over")
		held := func(id string) bool {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, over)
			defer cancel()
			err := m.WaitToWrite(ctx, id)
			if err != nil && !errors.Is(err, over) {
				t.Errorf("the wait of %s ends with %v", id, err)
			}
			return err != nil
		}
		expect := func(when, id string, want bool) {
			t.Helper()
			if held(id) != want {
				t.Errorf("%s: the %s pipeline is held: %v", when, id, !want)
			}
		}
		save := func(id string) (saved chan bool) {
			saved = make(chan bool, 1)
			epoch, _ := m.Epoch(id)
			m.Save(id, epoch, []byte("{}"), func(ok bool) { saved <- ok })
			return saved
		}

		expect("quiet", strict, false)
		store.off.Store(true)
		saved, also := save(strict), save(relaxed)
		time.Sleep(m.Timing.Overdue - 10*time.Millisecond)
		expect("just before it is overdue", strict, false)
		time.Sleep(10 * time.Millisecond)
		expect("overdue", strict, true)
		expect("overdue", relaxed, false)
		store.off.Store(false)
		if err := m.WaitToWrite(t.Context(), strict); err != nil || !<-saved || !<-also {
			t.Errorf("when the store answers again, the wait ends with %v", err)
		}

		time.Sleep(time.Minute) // its session is renewed again
		asleep := time.Now()
		store.memory.Write(t.Context(), protocol.Write{Entry: protocol.Entry{Key: pause.key, Value: []byte("v")}})
		time.Sleep(m.Timing.SelfStop - m.Timing.Renew - time.Second)
		expect("paused for a moment", strict, false)
		time.Sleep(m.Timing.SelfStop - time.Since(asleep))
		expect("paused", strict, true)
		expect("paused", relaxed, false)
		if len(lost) > 0 {
			t.Error("the member was not paused")
		}
		pause.on <- struct{}{}
		if id := <-lost; id != strict {
			t.Errorf("the %s pipeline is stopped", id)
		}
		expect("stopped", strict, true)
	})
}
