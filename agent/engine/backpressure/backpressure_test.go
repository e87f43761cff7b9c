package backpressure_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
)

func TestWindow(t *testing.T) {
	w := backpressure.Window{Unacked: 10, Unsettled: 5, Bytes: 100}
	for _, c := range []struct {
		unacked, unsettled uint64
		held               int
		want               bool
	}{
		{0, 0, 0, true},
		{9, 4, 99, true},
		{10, 4, 99, false},
		{9, 5, 99, false},
		{9, 4, 100, false},
	} {
		if got := w.Allows(c.unacked, c.unsettled, c.held); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Sources that share a bound keep to it together, but each may always hold a small amount.
func TestShared(t *testing.T) {
	shared := &backpressure.Shared{Bytes: 100, Each: 10}
	a := backpressure.Window{Unacked: 10, Unsettled: 10, Bytes: 1000, Shared: shared}
	account := shared.Join(0)
	account.Add(60)
	account.Add(39)
	if !a.Allows(0, 0, 60) {
		t.Error("99 of 100 bytes are not allowed")
	}
	account.Add(1)
	if a.Allows(0, 0, 60) || a.Allows(0, 0, 10) {
		t.Error("more than 100 bytes are allowed")
	}
	if !a.Allows(0, 0, 9) {
		t.Error("a source that holds less than its own part may not read")
	}
	if account.Add(-1); !a.Allows(0, 0, 60) {
		t.Error("what was released is not free")
	}
	var none *backpressure.Shared
	none.Join(0).Add(1 << 40) // no bound
	if a.Shared = nil; !a.Allows(0, 0, 999) {
		t.Error("without a shared bound it is not allowed")
	}
}
