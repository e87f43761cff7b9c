// Package claims writes claims of a store concurrently, and checks that the answers are linearizable.
package claims

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Writers are concurrent writers of the same two claims. They record the answers.
type Writers struct {
	t                *testing.T
	begin            time.Time
	history          *server.History
	applied, unknown atomic.Int64
	stop             chan struct{}
	writing          sync.WaitGroup
}

// NewWriters starts a writer on each of the stores. Check ends them.
func NewWriters(t *testing.T, stores ...cluster.Store) *Writers {
	w := &Writers{t: t, begin: time.Now(), history: &server.History{}, stop: make(chan struct{})}
	for i, s := range stores {
		w.writing.Go(func() { w.run(s, i, w.stop) })
	}
	w.More()
	return w
}

// Break stalls each link of the writers, so that a write gets no answer, and cuts it.
func (w *Writers) Break(proxies []*network.Proxy) {
	w.t.Helper()
	for _, p := range proxies {
		before := w.unknown.Load()
		p.Hold(true)
		wait.For(w.t, "a write without an answer", func() bool { return w.unknown.Load() > before })
		p.Heal()
		p.Cut()
		w.More()
	}
}

// Check ends the writers, and checks that their history is linearizable.
func (w *Writers) Check() {
	w.t.Helper()
	close(w.stop)
	w.writing.Wait()
	ok, verdict := w.history.Linearizable(w.t)
	if w.t.Logf("%s, %d without an answer", verdict, w.unknown.Load()); !ok {
		w.t.Error("no order of the writes of the claims explains their answers")
	}
}

// More returns when more writes have been applied.
func (w *Writers) More() {
	w.t.Helper()
	before := w.applied.Load()
	wait.For(w.t, "30 more writes", func() bool { return w.applied.Load() >= before+30 })
}

// run writes as a member does: it sends a write with an unknown outcome again, unchanged.
func (w *Writers) run(s cluster.Store, client int, stop <-chan struct{}) {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	revisions := map[string]uint64{}
	for n := 0; ; n++ {
		e := protocol.Entry{Key: fmt.Sprint(protocol.ClaimPrefix, "K", n%2), Value: fmt.Append(nil, client, "-", n)}
		e.Revision = revisions[e.Key]
		for {
			select {
			case <-stop:
				return
			case <-pause.C:
			}
			o := w.write(s, client, e)
			if o.Result == protocol.Applied {
				revisions[e.Key] = o.Revision
				break
			}
			if o.Result == protocol.Conflict {
				ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
				if now, err := s.Read(ctx, e.Key); err == nil {
					revisions[e.Key] = now.Revision
				}
				cancel()
				break
			}
		}
	}
}

// write sends a write once.
func (w *Writers) write(s cluster.Store, client int, e protocol.Entry) protocol.Outcome {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	called := time.Since(w.begin)
	o := s.Write(ctx, protocol.Write{Entry: e})
	op := server.Operation{Key: e.Key, Client: client, Call: int64(called), Return: int64(time.Since(w.begin)),
		Expected: e.Revision, Stamp: string(e.Value), Revision: o.Revision}
	switch o.Result {
	case protocol.Applied:
		op.Kind = "applied"
		w.applied.Add(1)
	case protocol.Conflict:
		op.Kind = "conflict"
	case protocol.Unknown:
		op.Kind = "unknown"
		w.unknown.Add(1)
	case protocol.Busy: // an earlier attempt may be in flight
		return o
	}
	w.history.Add(op)
	return o
}
