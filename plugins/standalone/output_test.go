package standalone_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/standalone"
)

// A secret in the last words of a plugin is recognised wherever the line is cut.
func TestLastWordsAreRedacted(t *testing.T) {
	const secret = "sup3rs3cret-of-the-warehouse"
	redact := func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	for before := 500 - len(secret) - 5; before < 505; before++ {
		line := strings.Repeat("x", before) + secret
		for _, throttled := range []bool{false, true} {
			said := standalone.LastSaid(log, redact, line, throttled)
			if !strings.HasPrefix(said, "xxx") || strings.Contains(said, secret[:3]) {
				t.Fatalf("with %d bytes before it, throttled %v, it said last: …%s", before, throttled, said[len(said)-min(len(said), 40):])
			}
		}
	}
}
