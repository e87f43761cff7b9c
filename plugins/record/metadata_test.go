package record_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// Set, Add with Sort, and a map produce the same metadata from the same pairs, in any order.
func TestMetadataIsSorted(t *testing.T) {
	for _, n := range []int{0, 1, 5, 31, 32, 33, 40, 200} {
		pairs, set, added := map[string]string{}, record.Metadata(nil), record.Metadata(nil)
		for i := range 2 * n {
			key, value := fmt.Sprint("key", rand.IntN(n)), fmt.Sprint(i)
			pairs[key] = value
			set.Set(key, value)
			added.Add(key, value)
		}
		added.Sort()
		want := record.NewMetadata(pairs)
		if !set.Equal(want) && n > 0 || !added.Equal(want) && n > 0 {
			t.Errorf("%d: Set makes %v, Add %v, want %v", n, set, added, want)
		}
	}
}

// Very large metadata take linear time, and too many pairs are refused.
func TestManyMetadata(t *testing.T) {
	encode := func(n int) []byte {
		m := make(record.Metadata, 0, n)
		for i := range n {
			m.Add(fmt.Sprintf("key%09d", (n-i)*7919%n), "value") // unsorted
		}
		r := record.Record{Position: record.Position("1"), Metadata: m}
		b, err := record.AppendWire(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	decode := func(b []byte) (int, error) {
		r, err := record.ParseWire(b)
		return len(r.Metadata), err
	}
	few, many := encode(record.MaxMetadata/10), encode(record.MaxMetadata)
	short := wait.CPUTime(func() {
		if n, err := decode(few); err != nil || n < 100 {
			t.Errorf("%d pairs, %v", n, err)
		}
	})
	long := wait.CPUTime(func() {
		if n, err := decode(many); err != nil || n < 1000 {
			t.Errorf("%d pairs, %v", n, err)
		}
	})
	if long > 60*short && long.Seconds() > 2 {
		t.Errorf("ten times as many pairs took %v, %v before", long, short)
	}
	if _, err := decode(encode(record.MaxMetadata + 1)); err == nil ||
		!strings.Contains(err.Error(), "more than 10000 pairs of metadata") {
		t.Errorf("too many pairs: %v", err)
	}
}
