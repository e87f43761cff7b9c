package reference

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A read that hangs is abandoned, and only one is in progress regardless of the number of attempts.
func TestReadsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads reads
		var times atomic.Int32
		hang := make(chan struct{})
		read := func() (string, error) { times.Add(1); <-hang; return "content", nil }
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := within(ended, &reads, time.Hour, "file", read); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		begin := time.Now()
		if _, err := within(t.Context(), &reads, time.Second, "file", read); err == nil ||
			!strings.Contains(err.Error(), "does not respond") {
			t.Errorf("a read that hangs: %v", err)
		}
		if d := time.Since(begin); d != time.Second || times.Load() != 1 {
			t.Errorf("it took %v and %d reads", d, times.Load())
		}
		close(hang)
		synctest.Wait()
		if text, err := within(t.Context(), &reads, time.Second, "file", read); text != "content" || err != nil ||
			times.Load() != 2 {
			t.Errorf("after it came back: %q, %v, %d reads", text, err, times.Load())
		}
	})
}
