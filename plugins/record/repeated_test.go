package record_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

func TestRepeatedNames(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", "[]"}, {"b a", "[{a 1} {b 0}]"},
		{"a b a a", "[{a 0} {a[1] 2} {a[2] 3} {b 1}]"},
		{"a a a[1]", "[{a 0} {a[1] 2} {a[2] 1}]"}, // a key that has a number keeps it
		{"a[1] a[1]", "[{a[1] 0} {a[1][1] 1}]"},
	} {
		var m record.Metadata
		for i, key := range strings.Fields(test.in) {
			m.Add(key, fmt.Sprint(i))
		}
		if m.SortRepeated(); fmt.Sprint(m) != test.want {
			t.Errorf("%s: got %v, want %s", test.in, m, test.want)
		}
	}
}

// Headers that became metadata become the same headers again.
func TestRepeatedNamesComeBack(t *testing.T) {
	for range 1000 {
		var m record.Metadata
		want := map[string][]string{}
		for i := range rand.IntN(30) {
			name := string(rune('a' + rand.IntN(4)))
			want[name] = append(want[name], fmt.Sprint(i))
			m.Add("h."+name, fmt.Sprint(i))
		}
		m.Add("other[1]", "x")
		m.SortRepeated()
		got := map[string][]string{}
		for name, value := range m.Repeated("h.") {
			got[name] = append(got[name], value)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	// Names that only resemble repetitions are ordinary names.
	m := record.NewMetadata(
		map[string]string{"h.a[1]": "1", "h.b": "2", "h.b[2]": "3", "h.b[01]": "4", "h.c[": "5", "h.]": "6",
			"h.[1]": "7"},
	)
	var names []string
	for name := range m.Repeated("h.") {
		names = append(names, name)
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[[1] ] a[1] b b[01] b[2] c[]" {
		t.Errorf("got %v", names)
	}
}

func TestAddRepeated(t *testing.T) {
	object := map[string]any{}
	for i, name := range []string{"a", "b", "a", "a"} {
		record.AddRepeated(object, name, i)
	}
	if fmt.Sprint(object) != "map[a:[0 2 3] b:1]" {
		t.Errorf("got %v", object)
	}
}
