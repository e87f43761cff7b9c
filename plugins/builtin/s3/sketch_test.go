package s3

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestExtra finds the hashes that are only in the list, for sets of any size that differ by up to 16 hashes.
func TestExtra(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for n := range 2000 {
		var set sketch
		var list, extra []uint64
		for range random.IntN(n + 1) {
			h := random.Uint64()
			set.Add(h)
			list = append(list, h)
		}
		for range random.IntN(9) { // removed since
			set.Add(random.Uint64())
		}
		for range random.IntN(9) {
			extra = append(extra, random.Uint64())
		}
		set, err := parseSketch(set.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		got, ok := set.Extra(append(list, extra...))
		if !ok {
			failed++
			continue
		}
		slices.Sort(got)
		slices.Sort(extra)
		if !slices.Equal(got, extra) {
			t.Fatalf("%d hashes: got %x, want %x", len(list), got, extra)
		}
	}
	if failed > 20 {
		t.Errorf("%d of 2000 differences were not found", failed)
	}
}

// TestTooMany checks that a difference of too many hashes is reported.
func TestTooMany(t *testing.T) {
	var list []uint64
	for range 1000 {
		list = append(list, rand.Uint64())
	}
	if got, ok := new(sketch).Extra(list); ok {
		t.Errorf("got %d hashes", len(got))
	}
}

// TestRemove checks that removed hashes leave no trace.
func TestRemove(t *testing.T) {
	var set sketch
	for h := range uint64(1000) {
		set.Add(h)
	}
	for h := range uint64(1000) {
		set.Remove(h)
	}
	if set != (sketch{}) || set.Bytes() != nil {
		t.Errorf("got %x", set.Bytes())
	}
}

// FuzzParse refuses invalid sets, and encodes valid ones again.
func FuzzParse(f *testing.F) {
	var set sketch
	set.Add(7)
	f.Add(set.Bytes())
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parseSketch(text)
		if err != nil {
			return
		}
		if again, err := parseSketch(set.Bytes()); err != nil || again != set {
			t.Errorf("%x becomes %x: %v", text, set.Bytes(), err)
		}
		if err == nil && len(set.Bytes()) > len(text) && !bytes.Equal(text, nil) {
			t.Errorf("%x grows to %x", text, set.Bytes())
		}
	})
}
