package docsearch_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/api/docsearch"
)

// An excerpt begins with a whole word, contains the word that was searched, and is valid text.
func TestExcerpt(t *testing.T) {
	for _, text := range []string{
		"needle first",
		strings.Repeat("before ", 50) + "a needle " + strings.Repeat("after ", 100),
		strings.Repeat("ä", 200) + " needle " + strings.Repeat("ö", 300),
		strings.Repeat("x", 300) + "needles" + strings.Repeat("ü", 300),
	} {
		h := docsearch.Hit{Section: &docsearch.Section{Text: text}}
		got := h.Excerpt("Needle")
		if !strings.Contains(got, "needle") || !utf8.ValidString(got) || len(got) > 240 || !strings.Contains(text, got) {
			t.Errorf("the excerpt of %.80q is %q", text, got)
		}
		if strings.HasPrefix(text, "before") && !strings.HasPrefix(got, "before ") {
			t.Errorf("the excerpt begins within a word: %q", got)
		}
	}
	h := docsearch.Hit{Section: &docsearch.Section{Text: strings.Repeat("other ", 60) + "sdk.rate"}, Name: "sdk.rate"}
	if got := h.Excerpt("other"); !strings.HasSuffix(got, "sdk.rate") {
		t.Errorf("the excerpt of a setting is %q", got)
	}
}
