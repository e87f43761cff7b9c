package s3

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestReadSet compares sets of any size with listings: an object that is not in the set is never taken as read, and one
// that is in the set is read again only if others came or went.
func TestReadSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Now().Truncate(time.Second)
	for range 60 {
		var set readSet
		read := map[uint64]int64{}
		added := random.IntN(3 * maxNewest)
		for range added {
			at := start.Add(time.Duration(random.IntN(300_000)) * time.Millisecond).UnixNano()
			hash := random.Uint64()
			set.add(hash, at)
			read[hash] = at
		}
		for h, at := range read {
			if random.IntN(20) == 0 {
				set.remove(h, at)
				delete(read, h)
			}
		}
		set = again(t, set)
		if unread, doubtful := set.compare(read); len(unread)+len(doubtful) > 0 {
			t.Fatalf("of %d objects, %d and %d are read again", len(read), len(unread), len(doubtful))
		}
		listed, came := maps.Clone(read), map[uint64]bool{}
		for h := range listed { // a few went
			if delete(listed, h); random.IntN(3) == 0 {
				break
			}
		}
		for range random.IntN(4) {
			h := random.Uint64()
			came[h] = true
			listed[h] = start.Add(time.Duration(random.IntN(300_000)) * time.Millisecond).UnixNano()
		}
		unread, doubtful := set.compare(listed)
		if i := slices.IndexFunc(unread, func(h uint64) bool { return !came[h] }); i >= 0 {
			t.Fatalf("a read object is taken as unread")
		}
		for h := range came {
			if !slices.Contains(unread, h) && !slices.Contains(doubtful, h) {
				t.Fatal("an unread object is taken as read")
			}
		}
		if added <= maxNewest && len(doubtful) > 0 {
			t.Fatalf("%d of %d objects are doubtful, and all are listed", len(doubtful), added)
		}
	}
}

// again returns the set after a restart.
func again(t *testing.T, set readSet) (restored readSet) {
	text, err := json.Marshal(set)
	if err == nil {
		err = json.Unmarshal(text, &restored)
	}
	if err != nil || len(text) > 16*maxNewest || !reflect.DeepEqual(set, restored) && len(set.Newest) > 0 {
		t.Fatalf("%d objects in %d bytes: %v", len(set.Newest), len(text), err)
	}
	return restored
}

// FuzzObjectList refuses invalid lists, and encodes valid ones again.
func FuzzObjectList(f *testing.F) {
	for _, text := range []string{"", "AAAAAAAAAAA=", "gNjJmg0AAAAAAAAABwIAAAAAAAAACA==", "AQ==", "!"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var list, again objectList
		if list.UnmarshalText([]byte(text)) != nil {
			return
		}
		got, err := list.MarshalText()
		if err == nil {
			err = again.UnmarshalText(got)
		}
		if err != nil || !slices.Equal(list, again) {
			t.Errorf("%q becomes %q: %v", text, got, err)
		}
	})
}
