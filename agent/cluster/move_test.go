package cluster_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// TestPlannedMove drains a member: its pipeline is placed with the other one as soon as it has ended, and who asked is told as soon as
// the member has left. Neither waits for the next tick.
func TestPlannedMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ends, most = 50 * time.Millisecond, 150 * time.Millisecond
		shared := &memory{}
		begun := time.Now()
		var asked atomic.Int64 // when the pipeline was asked to end
		placed := make(chan string, 100)
		member := func(name string) *cluster.Member {
			m := &cluster.Member{
				Store: shared, Self: protocol.Session{Agent: name}, Timing: protocol.TimingOf(20 * time.Second), Log: slog.New(slog.DiscardHandler),
				Adopt: func(context.Context, string, []byte) error { return nil },
				Lost:  func(string) {},
				Idle:  func(context.Context, string) bool { return time.Since(begun)-time.Duration(asked.Load()) >= ends },
			}
			m.Placed = func(id string) {
				if m.Here(id) {
					placed <- name
				} else {
					asked.CompareAndSwap(0, int64(time.Since(begun)))
				}
			}
			go func() { _ = m.Run(t.Context()) }()
			m.Declare(t.Context(), protocol.Declared{Wanted: map[string]protocol.Wanted{"p": {Digest: "d"}}})
			return m
		}
		members := map[string]*cluster.Member{"a": member("a"), "b": member("b")}
		owner := <-placed
		time.Sleep(time.Minute + 10*time.Millisecond) // not at a tick
		began := time.Now()
		if err := members[owner].Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < ends || took > most {
			t.Errorf("the drain took %v, of a pipeline that ends within %v", took, ends)
		}
		if next := <-placed; next == owner || time.Since(began) > most {
			t.Errorf("placed with %s, where it was with %s, after %v", next, owner, time.Since(began))
		}
	})
}
