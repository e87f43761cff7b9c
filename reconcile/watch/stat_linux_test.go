package watch_test

import (
	"testing"

	"github.com/conduit-agent/conduit/reconcile/watch"
)

func TestMounts(t *testing.T) {
	if at := watch.Mounts("/"); !at["/proc"] {
		t.Errorf("mounts below the root: %v", at)
	}
	if at := watch.Mounts("//proc/"); !at["/proc"] || at["/"] {
		t.Errorf("mounts below /proc/: %v", at)
	}
}
