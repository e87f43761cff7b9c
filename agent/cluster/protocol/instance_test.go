package protocol

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestInstanceIDs(t *testing.T) {
	for _, c := range []struct {
		pipeline string
		number   int
		id       string
	}{{"p", 0, "p"}, {"p", 1, "p"}, {"p", 2, "p/2"}, {"p:q", 64, "p:q/64"}} {
		id := InstanceID(c.pipeline, c.number)
		if pipeline, number := InstanceOf(id); id != c.id || pipeline != c.pipeline || number != max(c.number, 1) {
			t.Errorf("instance %d of %s is %s, which is instance %d of %s", c.number, c.pipeline, id, number, pipeline)
		}
	}
	for _, id := range []string{"p/1", "p/65", "p/x"} {
		if pipeline, number := InstanceOf(id); pipeline != id || number != 1 {
			t.Errorf("%s is instance %d of %s", id, number, pipeline)
		}
	}
}

// TestInstancesMove kills a member with an instance: only that instance moves, to the member without one.
func TestInstancesMove(t *testing.T) {
	for seed := range uint64(5) {
		w := &world{t: t, seed: 1, quiet: true, rand: rand.New(rand.NewPCG(seed, 2)), keys: map[string]*stored{},
			acked: map[string]uint64{}, sink: map[string]uint64{}, running: map[string]*agent{}}
		for i := range 4 {
			a := &agent{w: w, name: fmt.Sprint("agent-", i), file: true}
			w.agents = append(w.agents, a)
			w.after(time.Duration(i)*time.Millisecond, a.boot)
		}
		w.run(30 * time.Second)
		before := w.instances("hot", 3)
		if len(before) != 3 {
			t.Fatalf("the instances are on %v", before)
		}
		gone := w.named(before["hot/2"])
		for id := range gone.runs {
			gone.ends(id)
		}
		gone.life, gone.runs, gone.node = gone.life+1, nil, nil // it does not return
		w.run(25 * time.Second)
		after := w.instances("hot", 3)
		if len(after) != 3 || after["hot/2"] == before["hot/2"] || after["hot"] != before["hot"] ||
			after["hot/3"] != before["hot/3"] {
			t.Fatalf("the instances were on %v, and after %s died on %v", before, gone.name, after)
		}
	}
}
