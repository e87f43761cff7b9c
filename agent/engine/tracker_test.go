package engine_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
)

// model is the tracker written down naively: one flag per record and destination.
type model struct {
	settled [][]bool // per record read, per destination
	kept    []bool
}

func (m *model) low() (n uint64) {
	for i, dests := range m.settled {
		if m.kept[i] {
			for _, done := range dests {
				if !done {
					return n
				}
			}
		}
		n++
	}
	return n
}

func TestTrackerAgreesWithTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dests := rapid.IntRange(1, 3).Draw(t, "dests")
		var tr engine.Tracker
		var m model
		var flights [][]int // per flight and destination, records settled
		var keptAt [][]int  // per flight, model index of each kept record
		acked := 0
		lent := map[int][]record.Position{} // what was handed out, by number; it must not change
		next := make([]int, dests)          // flight each destination is at
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				n := rapid.IntRange(1, 5).Draw(t, "n")
				var origin []int32
				filter := rapid.Bool().Draw(t, "filter")
				if filter {
					origin = []int32{}
				}
				var positions []record.Position
				var indices []int
				for i := range n {
					positions = append(positions, record.Position(strconv.Itoa(len(m.kept)+1)))
					keep := !filter || rapid.Bool().Draw(t, "keep")
					if keep {
						indices = append(indices, len(m.kept))
						if filter {
							origin = append(origin, int32(i))
						}
					}
					m.kept = append(m.kept, keep)
					m.settled = append(m.settled, make([]bool, dests))
				}
				flights, keptAt = append(flights, make([]int, dests)), append(keptAt, indices)
				tr.Add(positions, origin, dests)
			case 1, 2:
				d := rapid.IntRange(0, dests-1).Draw(t, "dest")
				for next[d] < len(flights) && flights[next[d]][d] == len(keptAt[next[d]]) {
					next[d]++
				}
				if next[d] == len(flights) {
					continue
				}
				f := next[d]
				n := rapid.IntRange(1, len(keptAt[f])-flights[f][d]).Draw(t, "settle")
				for range n {
					m.settled[keptAt[f][flights[f][d]]][d] = true
					flights[f][d]++
				}
				tr.Settle(f, d, n)
			case 3:
				_, committed, low, _ := tr.Marks()
				p, err := tr.Commit()
				if err != nil {
					t.Fatal(err)
				}
				if low > committed && string(p) != strconv.Itoa(int(low)) {
					t.Fatalf("position at %d is %q", low, p)
				}
				lent[int(low)] = append(lent[int(low)], p)
			case 4:
				positions, err := tr.Ack()
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range positions {
					if acked++; string(p) != strconv.Itoa(acked) {
						t.Fatalf("acked %q where %d was due", p, acked)
					}
					lent[acked] = append(lent[acked], p)
				}
			}
			a, c, l, r := tr.Marks()
			if l != m.low() || r != uint64(len(m.kept)) || a != uint64(acked) || a > c || c > l {
				t.Fatalf("acked %d committed %d low %d read %d; model: acked %d low %d read %d", a, c, l, r, acked, m.low(), len(m.kept))
			}
		}
		for number, positions := range lent {
			for _, p := range positions {
				if len(p) > 0 && string(p) != strconv.Itoa(number) {
					t.Fatalf("position %d became %q", number, p)
				}
			}
		}
	})
}

func TestTrackerForgetsWhatIsAcked(t *testing.T) {
	var tr engine.Tracker
	for i := range 1000 {
		tr.Add([]record.Position{record.Position(strconv.Itoa(i))}, nil, 1)
		tr.Settle(i, 0, 1)
		if _, err := tr.Commit(); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Ack(); err != nil {
			t.Fatal(err)
		}
		if flights, bytes := tr.Held(); flights != 0 || bytes != 0 {
			t.Fatalf("holds %d flights and %d bytes with nothing under way", flights, bytes)
		}
	}
}

// What a source that reads one record at a time leaves behind is kept in few lists, and
// acknowledged in lists of bounded length.
func TestTrackerKeepsSettledRecordsTogether(t *testing.T) {
	var tr engine.Tracker
	const n = 10_000
	for i := range n {
		tr.Add([]record.Position{record.Position(strconv.Itoa(i))}, nil, 1)
		tr.Settle(i, 0, 1)
	}
	if batches, _ := tr.Held(); batches > n/200 {
		t.Errorf("%d lists are held for %d records", batches, n)
	}
	if _, err := tr.Commit(); err != nil {
		t.Fatal(err)
	}
	for acked := 0; acked < n; {
		positions, err := tr.Ack()
		if err != nil || len(positions) == 0 || len(positions) > 5000 {
			t.Fatalf("%d positions acknowledged at once, error %v", len(positions), err)
		}
		for _, p := range positions {
			if string(p) != strconv.Itoa(acked) {
				t.Fatalf("acked %q where %d was due", p, acked)
			}
			acked++
		}
	}
}
