package protocol

import (
	"math/rand/v2"
	"testing"
	"time"
)

// lone is an agent with a store that is out of reach at times. Another agent owns a pipeline there.
type lone struct {
	n        Node
	keys     map[string]Entry
	revision uint64
	out      [][2]time.Duration // outages of the store: start, end
	due      map[time.Duration][]Read
}

// other renews the session of the other agent.
func (w *lone) other() {
	w.revision++
	e := Entry{Key: SessionKey("a"), Value: encode(Session{Format: format, Agent: "a",
		Stamp: Stamp{"of a", w.revision}}), Revision: w.revision}
	w.keys[e.Key] = e
	w.n.Observe(w.n.now, e)
}

func (w *lone) down() bool {
	for _, one := range w.out {
		if w.n.now >= one[0] && w.n.now < one[1] {
			return true
		}
	}
	return false
}

func (w *lone) executeCommands() {
	for all := w.n.Commands(); len(all) > 0; all = w.n.Commands() {
		for _, c := range all {
			switch c := c.(type) {
			case Write:
				w.write(c)
			case Read:
				at := (w.n.now + c.After).Truncate(ahead)
				w.due[at] = append(w.due[at], c)
			}
		}
		w.answer()
	}
}

func (w *lone) answer() {
	reads := w.due[w.n.now]
	delete(w.due, w.n.now)
	for _, r := range reads {
		e := w.keys[r.Key]
		e.Key = r.Key
		w.n.Got(w.n.now, e, !w.down())
	}
}

func (w *lone) write(c Write) {
	o := Outcome{Result: Unknown}
	if at := w.keys[c.Key].Revision; !w.down() && at != c.Revision {
		o = Outcome{Conflict, at}
	} else if !w.down() {
		w.revision++
		c.Entry.Revision = w.revision
		w.keys[c.Key], o = c.Entry, Outcome{Applied, w.revision}
	}
	w.n.Wrote(w.n.now, c.ID, c.Key, o)
}

// TestTakeOverAfterAnOutage ends the owner of a pipeline while the store does not answer for some time. A brief outage
// adds little to the time until the take-over, and a long one adds the TTL of a session. An owner that renews again
// keeps its pipeline.
func TestTakeOverAfterAnOutage(t *testing.T) {
	const died = 30 * time.Second // last renewal of the other agent
	for name, c := range map[string]struct {
		out         [][2]time.Duration // relative to died
		renews      []time.Duration    // relative to died
		least, most time.Duration      // until the take-over
	}{
		"none": {nil, nil, 20 * time.Second, 21 * time.Second},
		"the election of a leader": {[][2]time.Duration{{0, 6 * time.Second}}, nil, 20 * time.Second,
			21 * time.Second},
		"one request": {[][2]time.Duration{{15 * time.Second, 19100 * time.Millisecond}}, nil,
			20 * time.Second, 26500 * time.Millisecond},
		"two brief ones": {[][2]time.Duration{{0, 6 * time.Second},
			{9 * time.Second, 14 * time.Second}}, nil, 20 * time.Second, 21 * time.Second},
		"longer than a session": {[][2]time.Duration{{time.Second, 25 * time.Second}}, nil, 45 * time.Second,
			46500 * time.Millisecond},
		"so long that owners may stop": {[][2]time.Duration{{time.Second, 13 * time.Second}}, nil, 33 * time.Second,
			34500 * time.Millisecond},
		"an owner that lives after it": {[][2]time.Duration{{10 * time.Second, 19 * time.Second}},
			[]time.Duration{24 * time.Second}, 44 * time.Second, 45 * time.Second},
		"an owner that renews late in it": {[][2]time.Duration{{14 * time.Second, 19 * time.Second}},
			[]time.Duration{21 * time.Second}, 41 * time.Second, 42 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := &lone{keys: map[string]Entry{}, due: map[time.Duration][]Read{}}
			w.n = Node{Agent: Session{Agent: "b"}, Timing: TimingOf(20 * time.Second),
				Rand: rand.New(rand.NewPCG(1, 1)), Clock: time.Now, NewID: func() string {
					return "of b"
				}, Empty: state(0)}
			for _, one := range c.out {
				w.out = append(w.out, [2]time.Duration{died + one[0], died + one[1]})
			}
			w.n.Init(0)
			w.revision++
			claim := Entry{Key: ClaimKey("p"),
				Value:    encode(Claim{Format: format, Pipeline: "p", Owner: "a", Session: "of a", Digest: "d"}),
				Revision: w.revision}
			w.keys[claim.Key] = claim
			w.n.Observe(0, claim)
			w.n.Synced(0)
			w.n.Declare(0, Declared{Run: map[string]Declaration{"p": {Digest: "d"}}})
			renewed := died
			for now := time.Duration(0); now < died+2*time.Minute; now += ahead {
				w.n.now = now
				lives := now <= died && now%(4*time.Second) == died%(4*time.Second)
				for _, at := range c.renews {
					lives = lives || now == died+at
				}
				switch {
				case lives:
					w.other()
					renewed = now
				case now >= renewed+w.n.Timing.TTL && now >= died:
					delete(w.keys, SessionKey("a")) // it expired
				}
				w.answer()
				w.n.Tick(now)
				w.executeCommands()
				if got, _ := decode[Claim](w.keys[claim.Key].Value); got.Owner == "b" {
					if took := now - died; took < c.least || took > c.most {
						t.Errorf("taken over after %v, want %v to %v", took, c.least, c.most)
					}
					return
				}
			}
			t.Error("never taken over")
		})
	}
}

// TestOutagesAreMeasuredFromTheLastWrite delays the answer to a write: the following outage may have begun right after
// the write was sent.
func TestOutagesAreMeasuredFromTheLastWrite(t *testing.T) {
	for _, c := range []struct {
		answered, over time.Duration // answer to a write sent after one second; answer to the next one
		long           bool
	}{
		{2 * time.Second, 12 * time.Second, false},
		{2 * time.Second, 13 * time.Second, true},
		{10 * time.Second, 15 * time.Second, true},
	} {
		n := &Node{Timing: TimingOf(20 * time.Second)}
		o := &n.outage
		n.now = c.answered
		o.wrote(n, time.Second, Applied)
		o.wrote(n, 0, Unknown)
		n.now = c.over
		if o.wrote(n, c.over, Conflict); !o.on {
			t.Errorf("%+v: a write that was not applied ends the outage", c)
		}
		o.wrote(n, c.over, Applied)
		want := outage{brief: c.over, applied: c.over}
		if c.long {
			want = outage{last: c.over, applied: c.over}
		}
		if *o != want {
			t.Errorf("%+v: %+v, want %+v", c, *o, want)
		}
	}
}
