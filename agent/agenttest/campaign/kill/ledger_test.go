package kill

import (
	"strings"
	"testing"
)

// TestJudge checks that the ledger finds every error, and no error in correct numbers.
func TestJudge(t *testing.T) {
	odd := func(n int) int { return n % 2 }
	for _, c := range []struct {
		name     string
		got      []int
		promise  promise
		repeated int
		want     string // in the error; empty: none
	}{
		{"all", []int{1, 2, 3, 4}, promise{}, 0, ""},
		{"lost", []int{1, 2, 4}, promise{}, 0, "1 of 4 are lost: [3]"},
		{"lost at the end", []int{1, 2, 3}, promise{}, 0, "1 of 4 are lost: [4]"},
		{"repeated", []int{1, 2, 3, 2, 3, 4}, promise{}, 2, ""},
		{"swapped", []int{1, 3, 2, 4}, promise{}, 0, "record 2 is number 3: it follows 1"},
		{"swapped at the beginning", []int{2, 1, 3, 4}, promise{}, 0, "record 1 is number 2"},
		{"swapped without order", []int{1, 3, 2, 4}, promise{unordered: true}, 0, ""},
		{"swapped between groups", []int{2, 1, 4, 3}, promise{group: odd}, 0, ""},
		{"swapped in a group", []int{1, 4, 2, 3}, promise{group: odd}, 0, "number 4"},
		{"never produced", []int{1, 2, 3, 4, 5}, promise{}, 0, "number 5 arrived"},
		{"may be lost", []int{2, 4}, promise{lossy: true}, 0, ""},
		{"swapped beside a loss", []int{4, 2}, promise{lossy: true}, 0, "record 2 is number 2: it follows 4"},
		{"repeated beside a loss", []int{2, 2, 4}, promise{lossy: true}, 1, "record 2 is number 2: it follows 2"},
	} {
		var l ledger
		l.add(4, false)
		v := l.judge(c.got, c.promise)
		if v.repeated != c.repeated {
			t.Errorf("%s: %d repeated, want %d", c.name, v.repeated, c.repeated)
		}
		if (v.err == nil) != (c.want == "") || v.err != nil && !strings.Contains(v.err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, v.err, c.want)
		}
		if want := 4 - len(distinct(c.got)); c.promise.lossy && v.lost != want {
			t.Errorf("%s: %d lost, want %d", c.name, v.lost, want)
		}
	}
	var l ledger
	l.add(1, false)
	l.add(2, true) // tried twice: the system may have them twice
	if v := l.judge([]int{1, 2, 3, 2, 3}, promise{}); v.err != nil || v.repeated != 0 {
		t.Errorf("what was produced twice counts as repeated: %+v", v)
	}
}
