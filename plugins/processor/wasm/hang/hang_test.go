package hang_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/hang"
	"github.com/conduit-agent/conduit/plugins/record"
)

func TestGuard(t *testing.T) {
	var g hang.Guard
	bad, good := record.Position("bad"), record.Position("good")
	refused := func() bool { return g.Refuses("p:x", bad) != nil }
	if g.Alone("p:x") || refused() {
		t.Error("a processor that did not hang is suspected")
	}
	g.Hung("p:x", nil, time.Second)
	if !g.Alone("p:x") || g.Alone("p:y") || refused() {
		t.Error("after a batch took too long, records are given alone, and none is refused")
	}
	g.Hung("p:x", bad, time.Second)
	g.Hung("p:x", good, time.Second) // the machine stood still
	g.Hung("p:x", bad, time.Second)
	if refused() {
		t.Error("a record is refused at which it hung once in a row")
	}
	g.Hung("p:x", bad, time.Second)
	err := g.Refuses("p:x", bad)
	if err == nil || !strings.Contains(err.Error(), "given 1s (processors.timeout) and did not return, 2 times") {
		t.Errorf("refused with %v", err)
	}
	if g.Refuses("p:x", good) != nil || g.Refuses("p:y", bad) != nil {
		t.Error("others are refused, too")
	}
	if g.Passed("p:x", 20000); !g.Alone("p:x") {
		t.Error("forgotten too early")
	}
	if g.Passed("p:x", 1); g.Alone("p:x") || refused() {
		t.Error("not forgotten")
	}
}
