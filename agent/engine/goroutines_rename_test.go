package engine

import (
	"testing"
	"testing/synctest"
)

// A goroutine is renamed, and renamed back, by two others in any order: the second rename may come after its end. Then
// the group ends all the same, and starts no goroutine any more.
func TestRenamesInAnyOrder(t *testing.T) {
	for name, afterEnd := range map[string]bool{"while it runs": false, "after its end": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGoroutines()
				goOn := make(chan struct{})
				g.Start("reads", func() { <-goOn })
				waited := make(chan error, 1)
				go func() { waited <- g.Wait(t.Context()) }()
				synctest.Wait()
				g.Rename("writes", "reads")
				if afterEnd {
					close(goOn)
					synctest.Wait()
				}
				g.Rename("reads", "writes")
				g.Start("reads", func() {
					if afterEnd {
						t.Error("a goroutine was started in a group that is over")
					}
				})
				if !afterEnd {
					close(goOn)
				}
				if err := <-waited; err != nil || len(g.names) != 0 {
					t.Errorf("%v are left: %v", g.names, err)
				}
			})
		})
	}
}
