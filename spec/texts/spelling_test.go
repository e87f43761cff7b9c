package texts_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec/texts"
)

func TestClosest(t *testing.T) {
	words := []string{"running", "stopped", "id", "plugin", "rate", "force", "source"}
	for word, want := range map[string]string{
		"Running": "running", "stoped": "stopped", "plguin": "plugin", "di": "id", "Rates": "rate", "sorce": "source",
		"orce":  "force",
		"xyzzy": "", "running": "", "": "", strings.Repeat("plugin", 11): "",
	} {
		if got := texts.Closest(word, words); got != want {
			t.Errorf("Closest(%q) = %q, want %q", word, got, want)
		}
		hint := ""
		if want != "" {
			hint = `; did you mean "` + want + `"?`
		}
		if got := texts.Hint(word, words); got != hint {
			t.Errorf("Hint(%q) = %q, want %q", word, got, hint)
		}
	}
}
