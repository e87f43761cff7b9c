package deadletters_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/spec"
)

// replayStatus is the status of a running replay.
func replayStatus() spec.Replay { return spec.Replay{Running: true, Started: time.Now()} }

// replaying is a replay on a member.
type replaying struct {
	mu      sync.Mutex
	now     spec.Replay // guarded by mu
	reasons []error     // guarded by mu: reasons passed to cancel
	end     func(spec.Replay)
}

func (h *host) replay(pipeline string) *replaying {
	h.Helper()
	r := &replaying{now: replayStatus()}
	end, err := h.Begin(h.Context(), pipeline, r.status, r.cancel)
	must(h.T, err)
	r.end = end
	return r
}

func (r *replaying) status() spec.Replay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *replaying) cancel(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Cancelled = true
	r.reasons = append(r.reasons, why)
}

func (r *replaying) asked() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reasons
}

// replayer returns two members; the first one replays.
func replayer(t *testing.T) (m *memory, a, b *host, r *replaying) {
	t.Helper()
	m = &memory{}
	a, b = newMember(t, "a", m, m, deadletter.Limits{}), newMember(t, "b", m, m, deadletter.Limits{})
	return m, a, b, a.replay("p")
}

// elsewhere returns the replay of a pipeline from the view of a member.
func (h *host) elsewhere(pipeline string) spec.Replay {
	h.Helper()
	r, ok := h.RemoteReplay(h.Context(), pipeline)
	if !ok {
		h.Fatal("no replay is known")
	}
	return r
}

// TestCancelOnAnotherMember cancels a replay from a member that does not run it. The running member notices, and the
// others see its progress and how it ended. Another cancellation changes nothing.
func TestCancelOnAnotherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b, r := replayer(t)
		r.mu.Lock()
		r.now.Settled = 3
		r.mu.Unlock()
		if _, ok := b.RemoteReplay(t.Context(), "q"); ok {
			t.Error("a replay of a pipeline of which there was none")
		}
		time.Sleep(11 * time.Second)
		if s := b.elsewhere("p"); !s.Running || s.Member != "a" || s.Settled != 3 || s.PipelineID != "p" ||
			s.Cancelled {
			t.Errorf("b knows %+v", s)
		}
		if len(r.asked()) > 0 {
			t.Fatalf("it ends for %v", r.asked())
		}
		began := time.Now()
		must(t, b.Cancel(t.Context(), "p"))
		if took := time.Since(began); took > time.Second {
			t.Errorf("a member that is there answers after %s", took)
		}
		if s := b.elsewhere("p"); !s.Running || !s.Cancelled || s.Message != "" {
			t.Errorf("when it was asked to end b knows %+v", s)
		}
		if all := r.asked(); len(all) == 0 || all[0] != nil {
			t.Errorf("it ends for %v", all)
		}
		written := len(m.Written())
		must(t, b.Cancel(t.Context(), "p"))
		must(t, a.Cancel(t.Context(), "p"))
		if n := len(m.Written()) - written; n != 0 {
			t.Errorf("to ask again wrote %d times", n)
		}
		time.Sleep(11 * time.Second)
		if s := b.elsewhere("p"); !s.Running || !s.Cancelled {
			t.Errorf("while what is outstanding is settled b knows %+v", s)
		}
		r.end(spec.Replay{Started: r.now.Started, Cancelled: true, Settled: 5})
		if s := b.elsewhere("p"); s.Running || !s.Cancelled || s.Settled != 5 || s.Member != "a" {
			t.Errorf("when it has ended b knows %+v", s)
		}
		must(t, b.Cancel(t.Context(), "p"))
		next := b.replay("p")
		defer next.end(next.status())
		time.Sleep(6 * time.Second)
		if s := a.elsewhere("p"); !s.Running || s.Cancelled || s.Member != "b" || len(next.asked()) > 0 {
			t.Errorf("the next replay ends, too: %+v", s)
		}
	})
}

// TestCancelWithoutWatch cancels a replay on a member whose watch shows no changes: the member reads its lease
// regularly.
func TestCancelWithoutWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, b, r := replayer(t)
		defer r.end(r.status())
		key := protocol.DeadLettersKey("p") + ".replay"
		e := m.All()[key]
		var l map[string]any
		must(t, json.Unmarshal(e.Value, &l))
		l["cancel"] = true
		e.Value, _ = json.Marshal(l)
		m.Restore(key, e) // the watch does not show it
		time.Sleep(6 * time.Second)
		if all := r.asked(); len(all) == 0 || all[0] != nil {
			t.Errorf("it ends for %v", all)
		}
		if s := b.elsewhere("p"); !s.Cancelled {
			t.Errorf("b knows %+v", s)
		}
	})
}

// TestCancelOfAMemberThatIsAway cancels a replay whose member does not answer. The status says so after a few seconds,
// and, once the lease has expired, that the replay ended with its member.
func TestCancelOfAMemberThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		b := newMember(t, "b", m, m, deadletter.Limits{})
		value, _ := json.Marshal(map[string]any{"format": 1, "member": "a", "stamp": "x",
			"replay": spec.Replay{Running: true, Started: time.Now(), Settled: 7}})
		leased := func(pipeline string) (key string) {
			key = protocol.DeadLettersKey(pipeline) + ".replay"
			m.Memory.Write(t.Context(), protocol.Write{Entry: protocol.Entry{Key: key, Value: value}})
			return key
		}
		key := leased("p")
		for range 2 {
			began := time.Now()
			must(t, b.Cancel(t.Context(), "p"))
			if took := time.Since(began); took < time.Second || took > 10*time.Second {
				t.Errorf("answered after %s", took)
			}
			if s := b.elsewhere("p"); !s.Running || !s.Cancelled ||
				!strings.Contains(s.Message, "the member a has not responded") {
				t.Errorf("b knows %+v", s)
			}
		}
		if n := len(m.Written()); n != 2 {
			t.Errorf("the lease was written %d times", n-1)
		}
		time.Sleep(30 * time.Second)
		m.set(func() { m.down = true })
		if s := b.elsewhere("p"); !s.Running || !strings.Contains(s.Message, "unreachable") {
			t.Errorf("without the store b knows %+v", s)
		}
		m.set(func() { m.down = false })
		m.Expire(key)
		if s := b.elsewhere("p"); s.Running || !s.Cancelled || s.Settled != 7 || s.Member != "a" ||
			!strings.Contains(s.Error, "it ended with the member a") {
			t.Errorf("when its lease is gone b knows %+v", s)
		}
		m.Expire(leased("q"))
		for range 2 {
			must(t, b.Cancel(t.Context(), "q"))
			if s := b.elsewhere("q"); s.Running || s.Settled != 7 || s.Member != "a" ||
				!strings.Contains(s.Error, "it ended with the member a") {
				t.Errorf("when its lease is gone, which was seen just now, b knows %+v", s)
			}
		}
		r := b.replay("p")
		r.end(r.status())
	})
}

// TestReplayWithoutALease ends a replay whose lease another member may have by now: it expired, or could not be renewed
// during its lifetime.
func TestReplayWithoutALease(t *testing.T) {
	for name, lose := range map[string]func(m *memory){
		"expired":      func(m *memory) { m.Expire(protocol.DeadLettersKey("p") + ".replay") },
		"out of reach": func(m *memory) { m.set(func() { m.down = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _, _, r := replayer(t)
				defer r.end(r.status())
				lose(m)
				time.Sleep(4 * time.Second)
				if len(r.asked()) > 0 {
					t.Fatalf("it ends at once for %v", r.asked())
				}
				time.Sleep(27 * time.Second)
				if all := r.asked(); len(all) != 1 || all[0] == nil ||
					!strings.Contains(all[0].Error(), "another member may replay the same") {
					t.Errorf("it ends for %v", all)
				}
			})
		})
	}
}
