package standalone_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

// At most 1 MiB of plugin output is logged at once and 1 MiB per second after that. The log states the size of the
// dropped output.
func TestLogThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &wait.Buffer{}
		w, end := standalone.NewLogWriter(slog.New(slog.NewTextHandler(out,
			&slog.HandlerOptions{Level: slog.LevelDebug})))
		line := []byte(strings.Repeat("x", 1023) + "\n")
		write := func(n int) (logged int) {
			out.Take()
			for range n {
				_, _ = w.Write(line)
			}
			return strings.Count(out.String(), "level=DEBUG")
		}
		if n := write(4096); n < 1024 || n > 1026 {
			t.Errorf("%d lines of a KiB are logged at once", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if want := "lines=30"; !strings.Contains(out.String(), want) || strings.Count(out.String(), "left out") != 1 {
			t.Errorf("the log does not say once %s: %.200s", want, out.String()[max(0, len(out.String())-200):])
		}
		if n := write(4096); n < 1024 || n > 1026 {
			t.Errorf("%d lines are logged after two seconds", n)
		}
		out.Take()
		fmt.Fprint(w, "no end of line")
		end()
		if got := out.String(); !strings.Contains(got, "left out") || strings.Contains(got, "no end") {
			t.Errorf("at the end the log says %q, want what was left out", got)
		}
	})
}
