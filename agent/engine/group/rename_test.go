package group

import "testing"

// Renames that undo each other leave nothing behind, in any order.
func TestRenamesInAnyOrder(t *testing.T) {
	g := New()
	g.add("reads", 1)
	g.Rename("writes", "reads")
	g.Rename("reads", "writes")
	g.end("reads")
	if err := g.Wait(t.Context()); err != nil || len(g.running) != 0 {
		t.Errorf("%v are left: %v", g.running, err)
	}
}
