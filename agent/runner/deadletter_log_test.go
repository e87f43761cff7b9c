package runner_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/runner"
)

// A hundred lines pass at once, then one a minute, with the number of omitted lines.
func TestDeadLetterLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(runner.Bounded(slog.NewTextHandler(&out, nil))).With("pipeline", "p").WithGroup("g")
		for range 1000 {
			log.Warn("refused")
		}
		if n := strings.Count(out.String(), "pipeline=p"); n != 100 || strings.Contains(out.String(), "left_out") {
			t.Errorf("%d lines of a thousand, want 100:\n%.300s", n, out.String())
		}
		out.Reset()
		time.Sleep(time.Minute)
		for range 2 {
			log.Warn("refused")
		}
		if n := strings.Count(out.String(), "refused"); n != 1 || !strings.Contains(out.String(), "left_out=900") {
			t.Errorf("a minute later: %s", out.String())
		}
		time.Sleep(time.Hour)
		out.Reset()
		for range 100 {
			log.Warn("refused")
		}
		if n := strings.Count(out.String(), "refused"); n != 60 ||
			strings.Count(out.String(), "left_out=1 ")+strings.Count(out.String(), "left_out=1\n") != 1 {
			t.Errorf("an hour later %d lines, want 60: %.300s", n, out.String())
		}
	})
}
