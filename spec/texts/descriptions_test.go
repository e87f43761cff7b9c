package texts_test

import (
	"testing"

	"github.com/conduit-agent/conduit/spec/texts"
)

func TestDescription(t *testing.T) {
	const all = "\np.settings\npath: Path: absolute, or \\n.\nbackoff.min: Pause.\n" +
		"\np.other\npath: Other.\nlast: Last.\n" +
		"\nq.settings\npath: Of q.\n"
	for _, test := range [][3]string{
		{"p.settings", "path", "Path: absolute, or \\n."},
		{"p.settings", "backoff.min", "Pause."},
		{"p.settings", "min", ""},
		{"p.settings", "last", ""},
		{"p.settings", "", ""},
		{"p.other", "path", "Other."},
		{"p.other", "last", "Last."},
		{"q.settings", "path", "Of q."},
		{"p.set", "path", ""},
		{"settings", "path", ""},
		{"", "path", ""},
	} {
		if got := texts.Description(all, test[0], test[1]); got != test[2] {
			t.Errorf("%s, %s: got %q, want %q", test[0], test[1], got, test[2])
		}
	}
	if got := texts.Description("", "p.settings", "path"); got != "" {
		t.Errorf("got %q of no descriptions", got)
	}
}
