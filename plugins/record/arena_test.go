package record_test

import (
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

// TestArena checks that records with more fields and text than the arena was made for share no writable memory.
func TestArena(t *testing.T) {
	t.Parallel()
	const records = 9
	a := record.NewArena(records, 1, 2)
	all := make([]record.Metadata, records)
	for i := range all {
		all[i] = a.Metadata(i % 3)
		all[i].Set("n", a.Int(-1_000_000_007*int64(i)))
		all[i].Set("text", a.String(fmt.Appendf(nil, "text %d", i)))
	}
	for i := range all {
		for k := range 3 {
			all[i].Set(fmt.Sprint("of the host ", k), fmt.Sprint(i))
		}
	}
	for i, m := range all {
		want := record.NewMetadata(map[string]string{"n": fmt.Sprint(-1_000_000_007 * i),
			"text":          fmt.Sprintf("text %d", i),
			"of the host 0": fmt.Sprint(i), "of the host 1": fmt.Sprint(i), "of the host 2": fmt.Sprint(i)})
		if !m.Equal(want) {
			t.Errorf("record %d has %v, want %v", i, m, want)
		}
	}
}

// TestArenaAllocates checks that the metadata of a thousand records need only the allocations for a batch.
func TestArenaAllocates(t *testing.T) {
	const records = 1000
	n := testing.AllocsPerRun(10, func() {
		a := record.NewArena(records, 2, 20)
		for i := range records {
			m := a.Metadata(2)
			m.Set("a", a.Int(int64(i)*1_000_000_007))
			m.Set("b", a.String([]byte("text")))
		}
	})
	if n > 3 {
		t.Errorf("%v allocations", n)
	}
}
