package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/spec/notify"
)

// TestQueueTriesAgain makes work fail: it is tried again after a second, once, in the order of the keys, and newer work
// replaces it.
func TestQueueTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q, fails := notify.NewQueue[int](), &notify.Throttle{Fails: "cannot", Recovered: "can again"}
		var mu sync.Mutex
		var done []string // guarded by mu
		broken := true    // guarded by mu
		set := func(b bool) { mu.Lock(); broken = b; mu.Unlock() }
		q.Put("c", 1)
		q.Put("a", 0)
		q.Put("a", 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			q.Run(ctx, slog.New(slog.NewTextHandler(&out, nil)), fails,
				func(_ context.Context, key string, v int) error {
					mu.Lock()
					defer mu.Unlock()
					done = append(done, fmt.Sprint(key, v))
					if key == "b" && v == 1 {
						q.Put("b", 2) // newer than the work that fails now
					}
					if broken && key != "a" {
						return errors.New("broken")
					}
					return nil
				})
		}()
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(done, want) {
				t.Errorf("done %v, want %v", done, want)
			}
			done = nil
		}
		expect("a1", "c1")
		time.Sleep(900 * time.Millisecond)
		expect()
		time.Sleep(200 * time.Millisecond)
		expect("c1")
		set(false)
		time.Sleep(time.Second)
		expect("c1")
		time.Sleep(time.Minute)
		expect()
		set(true)
		q.Put("b", 1)
		expect("b1", "b2")
		cancel()
		<-ended
		if text := out.String(); strings.Count(text, "msg=cannot") != 2 || strings.Count(text, "can again") != 1 {
			t.Errorf("logged:\n%s", text)
		}
	})
}
