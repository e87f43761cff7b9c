package protocol

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// TestShares adds a member to others that run everything. The new member gets at least half of a fair share, by
// capacity among the members that may run a pipeline, and takes from the others only the excess above their shares.
func TestShares(t *testing.T) {
	const pipelines = 100
	for name, c := range map[string]struct {
		first, late []Session
		drains      bool           // a large member drains
		least, most map[string]int // number of pipelines at the end
	}{
		"a large one comes": {
			[]Session{{Agent: "a", Capacity: 1}, {Agent: "b", Capacity: 1}}, []Session{{Agent: "c", Capacity: 8}},
			false, map[string]int{"a": 10, "b": 10, "c": 40}, map[string]int{"c": 80},
		},
		"small ones come": {
			[]Session{{Agent: "c", Capacity: 8}}, []Session{{Agent: "a", Capacity: 1}, {Agent: "b", Capacity: 1}},
			false, map[string]int{"a": 5, "b": 5, "c": 80}, map[string]int{"a": 10, "b": 10},
		},
		"one that drains": {
			[]Session{{Agent: "a"}}, []Session{{Agent: "b"}},
			true, map[string]int{"a": 50, "b": 25}, map[string]int{"b": 50},
		},
		"one without the label": {
			[]Session{{Agent: "a"}}, []Session{{Agent: "b"},
				{Agent: "idle", Capacity: 98, Labels: map[string]string{"site": "elsewhere"}}},
			false, map[string]int{"a": 50, "b": 25}, map[string]int{"b": 50},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, wanted := &table{entries: map[string]Entry{}, frees: map[string]int{}}, map[string]Declaration{}
			for i := range pipelines {
				wanted[fmt.Sprint("p", i)] = Declaration{Digest: "d", Labels: map[string]string{"site": "here"}}
			}
			join := func(all []Session) {
				for _, s := range all {
					if s.Labels == nil {
						s.Labels = map[string]string{"site": "here"}
					}
					w.join(s, Declared{Run: maps.Clone(wanted)})
				}
			}
			join(c.first)
			w.until(time.Minute)
			join(c.late)
			for write := uint64(1); w.now < 6*time.Minute; write++ {
				if c.drains {
					w.put(SessionKey("d"), encode(Session{Format: format, Agent: "d", Stamp: Stamp{"of d", write},
						Labels: map[string]string{"site": "here"}, Capacity: 98, Draining: true}))
					for _, n := range w.nodes {
						n.Observe(w.now, w.entries[SessionKey("d")])
					}
				}
				w.until(w.now + time.Second)
			}
			has := w.owned()
			for agent, least := range c.least {
				if has[agent] < least {
					t.Errorf("%s has fewer than %d: %v", agent, least, has)
				}
			}
			for agent, most := range c.most {
				if has[agent] > most {
					t.Errorf("%s has more than %d: %v", agent, most, has)
				}
			}
		})
	}
}

// owned returns the number of pipelines of each member.
func (w *table) owned() map[string]int {
	has := map[string]int{}
	for key, e := range w.entries {
		if strings.HasPrefix(key, ClaimPrefix) {
			c, _ := decode[Claim](e.Value)
			has[c.Owner]++
		}
	}
	return has
}
