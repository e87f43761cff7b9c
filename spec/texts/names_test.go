package texts_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/spec/texts"
)

func TestPathElement(t *testing.T) {
	for want, ids := range map[string][]string{
		"shop":                     {"shop"},
		"shop%3aeu":                {"shop:eu"},
		"shop+eu":                  {"shop", "eu"},
		"!shop":                    {"Shop"},
		"%2e.":                     {".."},
		"%2e.%3a..%3ax":            {"..:..:x"},
		"%2ehidden":                {".hidden"},
		"a+%2e":                    {"a", "."},
		"a.b_c-1":                  {"a.b_c-1"},
		"%":                        {""},
		"a%2fb%00%c3%a4":           {"a/b\x00ä"},
		strings.Repeat("a", 200):   {strings.Repeat("a", 200)},
		"shop%3aeu+one%3atwo+!x!y": {"shop:eu", "one:two", "XY"},
	} {
		if got := texts.PathElement(ids...); got != want {
			t.Errorf("PathElement(%q) = %q, want %q", ids, got, want)
		}
	}
}

// ids draws short and long ids, with letters that have a special meaning in some context.
func ids(t *rapid.T, label string) string {
	id := rapid.StringOfN(rapid.SampledFrom([]rune("aAb:.-_%!+~/")), 1, 6, -1).Draw(t, label)
	return strings.Repeat(id, rapid.SampledFrom([]int{1, 1, 1, 60}).Draw(t, label+" times"))
}

// Different triples have different elements, and each is a path element that every file system accepts.
func TestElementsAreInjective(t *testing.T) {
	safe := regexp.MustCompile(`^[a-z0-9_%!+~-][a-z0-9_.%!+~-]*$`)
	owners := map[string][3]string{}
	rapid.Check(t, func(t *rapid.T) {
		triple := [3]string{ids(t, "pipeline"), ids(t, "connector"), ids(t, "processor")}
		name := texts.PathElement(triple[:]...)
		if !safe.MatchString(name) || len(name) > 200 {
			t.Fatalf("%q has the element %q of %d bytes", triple, name, len(name))
		}
		if other, taken := owners[name]; taken && other != triple {
			t.Fatalf("%q and %q have the same element %q", other, triple, name)
		}
		owners[name] = triple
	})
}

func FuzzPathElement(f *testing.F) {
	f.Add("shop", "eu:once", "shop:eu", "once")
	f.Add("a", "b", "A", "b")
	f.Add("", "+", "+", "")
	f.Add("%", "", "", "%")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if (a != c || b != d) && strings.EqualFold(texts.PathElement(a, b), texts.PathElement(c, d)) {
			t.Fatalf("(%q, %q) and (%q, %q) have the same element %q", a, b, c, d, texts.PathElement(a, b))
		}
	})
}

func TestWord(t *testing.T) {
	if got := texts.Word("shop:out"); got != "shop-out" {
		t.Errorf("Word of a plain id is %q, want shop-out", got)
	}
	allowed := regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)
	owners := map[string]string{}
	for _, id := range []string{"shop:out", "shop-out", "a:b:c", "a-b:c", "a:b-c", "a:b/c", "a-b-c", "", ":", "-", "/",
		"-:", strings.Repeat("a", 128) + ":" + strings.Repeat("b", 120)} {
		word := texts.Word(id)
		if !allowed.MatchString(word) || owners[word] != "" {
			t.Errorf("%q has the word %q, as has %q", id, word, owners[word])
		}
		owners[word] = id
	}
}

func TestWordsAreInjective(t *testing.T) {
	owners := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		id := ids(t, "pipeline") + ":" + ids(t, "connector")
		word := texts.Word(id)
		if other, taken := owners[word]; taken && other != id {
			t.Fatalf("%q and %q have the same word %q", other, id, word)
		}
		owners[word] = id
	})
}
