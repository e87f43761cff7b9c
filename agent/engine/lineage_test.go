package engine

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
)

func records(positions ...string) (all []record.Record) {
	for _, p := range positions {
		all = append(all, record.Record{Position: record.Position(p)})
	}
	return all
}

// samplePassage is the passage of three inputs through two chains: the first changed all, split the second and dropped
// the third; the second chain held the first.
func samplePassage() *passage {
	var none *passage
	return none.With(&given{Records: records("a", "b", "c"), Keeper: map[int32]string{1: "split"}}).
		With(&given{Records: records("a'", "b1", "b2"), Origins: []int32{0, 1, 1}, Held: []int32{0},
			Keeper: map[int32]string{0: "hold"}})
}

func TestOriginal(t *testing.T) {
	for input, want := range [][2]string{{"a'", "hold"}, {"b", "split"}, {"c", ""}} {
		if got, by := samplePassage().Original(input); string(got.Position) != want[0] || by != want[1] {
			t.Errorf("original of input %d is %s, kept by %q, want %s", input, got.Position, by, want)
		}
	}
}

func TestWhole(t *testing.T) {
	p := samplePassage()
	p.Given[1].Origins, p.Given[1].Records = []int32{0, 1, 1, 2}, records("a'", "b1", "b2", "c")
	got := []bool{p.Whole(0), p.Whole(1), p.Whole(2)}
	if want := []bool{false, false, true}; !slices.Equal(got, want) { // held, split, neither
		t.Errorf("whole: %v, want %v", got, want)
	}
}

// Other passages that share the beginning do not see an addition.
func TestWithKeepsTheFormer(t *testing.T) {
	p := samplePassage().With(&given{Records: records("0")})
	one, two := p.With(&given{Records: records("1")}), p.With(&given{Records: records("2")})
	if len(p.Given) != 3 || string(one.Given[3].Records[0].Position) != "1" ||
		string(two.Given[3].Records[0].Position) != "2" {
		t.Errorf("%d chains, then %s and %s", len(p.Given), one.Given[3].Records[0].Position,
			two.Given[3].Records[0].Position)
	}
}

func TestCompose(t *testing.T) {
	for _, c := range []struct{ before, after, want []int32 }{
		{nil, nil, nil},
		{[]int32{0, 2}, nil, []int32{0, 2}},
		{nil, []int32{1, 1}, []int32{1, 1}},
		{[]int32{0, 2, 2}, []int32{1, 1, 2}, []int32{2, 2, 2}},
		{[]int32{0, 2, 2}, []int32{}, []int32{}},
	} {
		if got := composeOrigins(c.before, c.after); !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v, then %v, is %v, want %v", c.before, c.after, got, c.want)
		}
	}
}

func TestFiltered(t *testing.T) {
	p := samplePassage()
	refused := func(input int) bool { return input == 3 }
	for _, c := range []struct {
		p       *passage
		origins []int32
		want    uint64
	}{
		{nil, []int32{}, 0},
		{p, nil, 0},              // one to one
		{p, []int32{1, 1}, 2},    // 2 and 4: 0 is held, 3 is refused
		{p, []int32{}, 3},        // 1, too
		{p, []int32{1, 2, 4}, 0}, // none is missing
	} {
		if got := c.p.Filtered(5, c.origins, refused); got != c.want {
			t.Errorf("with origins %v: %d filtered, want %d", c.origins, got, c.want)
		}
	}
}
