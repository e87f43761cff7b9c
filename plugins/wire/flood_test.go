package wire_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/wire"
)

// A plugin that floods its log has a part of it logged, and is told of the rest.
func TestLogFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, size = 1 << 20, 1 << 10
		out := &logs{}
		w, flush := wire.NewLogWriter(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		line := []byte(strings.Repeat("x", size) + "\n")
		logged := func() int { return strings.Count(out.String(), "xxx\n") }
		write := func(lines int) {
			t.Helper()
			for range lines {
				if n, err := w.Write(line); n != len(line) || err != nil {
					t.Fatal(n, err)
				}
			}
		}
		left := func(lines int) string { return fmt.Sprintf("left out\" lines=%d bytes=%d\n", lines, lines*size) }

		write(3 * rate / size)
		if n := logged(); n != rate/size || strings.Contains(out.String(), "left out") {
			t.Errorf("%d lines are logged of a flood", n)
		}
		time.Sleep(1100 * time.Millisecond) // silence
		synctest.Wait()
		if !strings.Contains(out.String(), left(2*rate/size)) {
			t.Errorf("nothing says how much was left out: %.300q", out.String()[len(out.String())-300:])
		}
		for range 100 { // just what is allowed
			time.Sleep(10 * time.Millisecond)
			write(10)
		}
		if n := logged(); n != rate/size+1000 || strings.Count(out.String(), "left out") != 1 {
			t.Errorf("%d lines are logged", n)
		}
		time.Sleep(time.Hour) // no more for it than after a second
		write(rate/size + 7)
		flush()
		if !strings.HasSuffix(out.String(), left(7)) || strings.Count(out.String(), "left out") != 2 {
			t.Errorf("the end does not tell how much was left out: %.300q", out.String()[len(out.String())-300:])
		}
		flush()
		time.Sleep(time.Hour)
		synctest.Wait()
		if strings.Count(out.String(), "left out") != 2 {
			t.Error("it is told again")
		}
	})
}
