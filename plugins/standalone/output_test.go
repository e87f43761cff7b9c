package standalone_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/standalone"
)

// A secret in the last output of a plugin is recognised wherever the line is cut.
func TestLastWordsAreRedacted(t *testing.T) {
	const secret = "sup3rs3cret-of-the-warehouse"
	redact := func(text string) string { return strings.ReplaceAll(text, secret, "***") }
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	for before := 500 - len(secret) - 5; before < 505; before++ {
		line := strings.Repeat("x", before) + secret
		for _, throttled := range []bool{false, true} {
			said := standalone.LastSaid(log, redact, line, throttled)
			if !strings.HasPrefix(said, "xxx") || strings.Contains(said, secret[:3]) {
				t.Fatalf("with %d bytes before it, throttled %v, it said last: …%s", before, throttled,
					said[len(said)-min(len(said), 40):])
			}
		}
	}
}

// A split line has a mark on both sides of each cut, which redaction needs.
func TestPiecesOfALineAreMarked(t *testing.T) {
	var b strings.Builder
	w, flush := standalone.NewLogWriter(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	_, _ = io.WriteString(w, strings.Repeat("x", 64<<10)+"y\nz\n")
	flush()
	got := strings.ReplaceAll(b.String(), strings.Repeat("x", 64<<10), "X")
	for _, want := range []string{"msg=X…\n", "msg=…y\n", "msg=z\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}
