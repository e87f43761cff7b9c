package protocol

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestDeclaredAgainDuringCleanUp declares a pipeline again long before another member has finished cleaning up after
// it. When the clean-up is complete, this member claims the pipeline.
func TestDeclaredAgainDuringCleanUp(t *testing.T) {
	n := &Node{
		Agent: Session{Agent: "b"}, Timing: timing, Rand: rand.New(rand.NewPCG(1, 1)), Empty: state(0),
		Clock: func() time.Time { return time.Time{} }, NewID: func() string { return "session" },
	}
	n.Init(0)
	n.Synced(0)
	revision, now, claims := uint64(100), time.Duration(0), 0
	until := func(end time.Duration) {
		for ; now < end; now += 250 * time.Millisecond {
			n.Tick(now)
			for commands := n.Commands(); len(commands) > 0; commands = n.Commands() {
				for _, c := range commands {
					switch c := c.(type) {
					case Write:
						revision++
						n.Wrote(now, c.ID, c.Key, Outcome{Applied, revision})
					case Read:
						if c.Key == ClaimKey("p") {
							claims++
						}
						n.Got(now, Entry{Key: c.Key}, true)
					}
				}
			}
		}
	}
	show := func(c Claim) {
		revision++
		c.Format, c.Pipeline, c.Withdrawn = format, "p", "a"
		c.Stamp.Session = fmt.Sprint("of a ", revision)
		n.Observe(now, Entry{Key: ClaimKey("p"), Value: encode(c), Revision: revision})
	}
	until(10 * time.Second)
	show(Claim{Owner: "a", Session: "s", Retiring: true})
	until(15 * time.Second)
	n.Declare(now, Declared{Run: map[string]Declaration{"p": {Digest: "d"}}})
	n.Observe(now, Entry{Key: SessionKey("a"), Value: encode(Session{Format: format, Agent: "a", Stamp: Stamp{"s", 1}}),
		Revision: 2000})
	until(30 * time.Second)
	if claims != 0 {
		t.Fatal("a pipeline that is cleaned up after is claimed")
	}
	n.Observe(now, Entry{Key: SessionKey("a"), Value: encode(Session{Format: format, Agent: "a", Stamp: Stamp{"s", 2}}),
		Revision: 2001})
	until(45 * time.Second)
	show(Claim{Deleted: true})
	until(50 * time.Second)
	if claims == 0 {
		t.Error("a pipeline that was declared again is not claimed once it was cleaned up after")
	}
}

// TestFirstInstanceIsDeletedFirst removes a pipeline with two instances. While a member that was away may still declare
// the first instance again, no claim of another instance is released.
func TestFirstInstanceIsDeletedFirst(t *testing.T) {
	w := &table{entries: map[string]Entry{}, frees: map[string]int{}}
	n := &Node{
		Agent: Session{Agent: "a"}, Timing: timing, Rand: rand.New(rand.NewPCG(1, 1)), Empty: state(0),
		Clock: func() time.Time { return time.Time{} }, NewID: func() string { return "session" },
	}
	n.Init(0)
	show := func(id string, c Claim) {
		c.Format, c.Pipeline = format, id
		w.put(ClaimKey(id), encode(c))
		n.Observe(w.now, w.entries[ClaimKey(id)])
	}
	show("p", Claim{Withdrawn: "b", Owner: "b", Session: "of b"})
	show("p/2", Claim{Withdrawn: "b"})
	n.Declare(0, Declared{Gone: map[string]Declaration{"p": {Digest: "d"}}})
	n.Synced(0)
	w.nodes = []*Node{n}
	for write := uint64(1); w.now < 2*timing.Retire; write++ {
		w.put(SessionKey("b"), encode(Session{Format: format, Agent: "b", Stamp: Stamp{"of b", write}}))
		n.Observe(w.now, w.entries[SessionKey("b")])
		w.until(w.now + time.Second)
	}
	if len(w.frees) != 0 {
		t.Fatalf("claims are written: %v", w.frees)
	}
	show("p", Claim{Withdrawn: "b", Deleted: true})
	delete(w.entries, SessionKey("b"))
	w.until(4 * timing.Retire)
	if c, _ := decode[Claim](w.entries[ClaimKey("p/2")].Value); !c.Retiring || c.Owner != "a" {
		t.Errorf("once the first instance is deleted, the other's claim is %+v", c)
	}
}
