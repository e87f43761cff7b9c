package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// TestPlannedMove drains one member after the other. The other member takes the pipelines as soon as they have stopped,
// and Drain returns as soon as the member has left. Neither waits for the next tick, nor depends on how long the other
// member has been up.
func TestPlannedMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pipelines, ends, most = 5, 50 * time.Millisecond, 150 * time.Millisecond
		shared := &memory{}
		type place struct{ member, pipeline string }
		placed := make(chan place, 100)
		wanted := map[string]protocol.Declaration{}
		for i := range pipelines {
			wanted[fmt.Sprint("p", i)] = protocol.Declaration{Digest: "d"}
		}
		member := func(name string) *cluster.Member {
			m := &cluster.Member{
				Store: shared, Self: protocol.Session{Agent: name}, Timing: protocol.TimingOf(20 * time.Second),
				Log:   slog.New(slog.DiscardHandler),
				Adopt: func(context.Context, string, []byte) error { return nil },
				Lost:  func(string) {},
			}
			var asked sync.Map // time of the stop request, by pipeline
			m.Placed = func(id string) {
				if asked.Delete(id); m.RunsHere(id) {
					placed <- place{name, id}
				} else {
					asked.Store(id, time.Now())
				}
			}
			m.Idle = func(_ context.Context, id string) bool {
				since, asks := asked.Load(id)
				return asks && time.Since(since.(time.Time)) >= ends
			}
			go func() { _ = m.Run(t.Context()) }()
			m.Declare(t.Context(), protocol.Declared{Run: wanted})
			return m
		}
		members := map[string]*cluster.Member{"a": member("a"), "b": member("b")}
		time.Sleep(time.Minute + 10*time.Millisecond) // the pipelines are balanced, and no tick is due
		for len(placed) > 0 {
			<-placed
		}
		for _, name := range []string{"a", "b", "a"} {
			began := time.Now()
			has := 0
			for id := range wanted {
				if members[name].RunsHere(id) {
					has++
				}
			}
			if err := members[name].Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < ends || took > most {
				t.Errorf("the drain of %s took %v, with %d pipelines that end within %v", name, took, has, ends)
			}
			for range has {
				if p := <-placed; p.member == name || time.Since(began) > most {
					t.Errorf("%s, drained, is placed with %s after %v", p.pipeline, p.member, time.Since(began))
				}
			}
			if err := members[name].Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}
