package backpressure_test

import (
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
)

// Uses other than sources take free memory, leave a quarter to sources, and take nothing while a source waits.
func TestPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &backpressure.Shared{Bytes: 32 * mib, Each: 512 * kib, Strict: true}
		inspectors, spools := m.Part(backpressure.Inspectors), m.Part(backpressure.Spools)
		if !inspectors.Take(16*mib) || !spools.Take(8*mib) || spools.Take(kib) || inspectors.Take(kib) {
			t.Fatal("they do not share three quarters")
		}
		a, b := m.Join(0), m.Join(0)
		read(t, a, 8*mib)  // the last quarter
		read(t, b, 16*mib) // the one source that may exceed the bound
		inspectors.Add(-16 * mib)
		if u := m.Use(); u.Sources != 24*mib || u.Parts[backpressure.Inspectors] != 0 ||
			u.Parts[backpressure.Spools] != 8*mib {
			t.Errorf("used: %+v", u)
		}
		spools.Add(16 * mib) // regardless of the bound
		c := m.Join(4 * mib)
		begun := begin(t, c)
		if begun() || m.Use().Waiting != 1 || spools.Take(1) {
			t.Error("a source does not wait, or a part takes memory meanwhile")
		}
		spools.Add(-24 * mib)
		if !begun() {
			t.Error("the source waits for memory that was given back")
		}
		a.Leave(8 * mib)
		b.Leave(16 * mib)
		c.Leave(0)
		if u := m.Use(); u != (backpressure.Use{Bytes: 32 * mib}) {
			t.Errorf("left: %+v", u)
		}
	})
}

// A holder always gets a small amount, and one at a time may exceed the free memory.
func TestHolder(t *testing.T) {
	m := &backpressure.Shared{Bytes: 32 * mib, Each: 512 * kib, Strict: true}
	p := m.Part(backpressure.Clients)
	full, a, b := p.Holder(), p.Holder(), p.Holder()
	if full.Room() != 24*mib || !full.Take(24*mib) || full.Room() != 0 {
		t.Fatalf("there is room for %d bytes", full.Room())
	}
	if !a.Take(256*kib) || !a.Take(40*mib) || b.Take(mib) || !b.Take(256*kib) {
		t.Error("small ones and one large one pass, no second one")
	}
	a.Add(-40 * mib)
	if !b.Take(mib) {
		t.Error("no other one passes after the large one")
	}
	a.Close()
	b.Close()
	full.Close()
	if u := m.Use(); u != (backpressure.Use{Bytes: 32 * mib}) {
		t.Errorf("left: %+v", u)
	}
}

// Without a limit uses are counted and never refused, and take nothing from sources.
func TestPartWithoutLimit(t *testing.T) {
	m := backpressure.NewShared()
	h, p := m.Part(backpressure.Clients).Holder(), m.Part(backpressure.Inspectors)
	if !h.Take(1<<40) || !p.Take(1<<40) {
		t.Error("they are refused")
	}
	if u := m.Use(); u.Sources != 0 || u.Parts[backpressure.Clients] != 1<<40 ||
		u.Parts[backpressure.Inspectors] != 1<<40 {
		t.Errorf("used: %+v", u)
	}
}
