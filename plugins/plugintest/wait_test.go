package plugintest_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// failing stands for a test that fails.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Fatal(args ...any) {
	f.message, _ = args[0].(string)
	runtime.Goexit()
}

// For returns when the condition holds; at the limit it fails the test with the description.
func TestFor(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0: "", time.Hour: "waited 2m0s for: the hour\nit is early",
		wait.Limit - time.Second: "", wait.Limit + time.Second: "waited 2m0s for: the hour\nit is early",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, began, returned := &failing{TB: t}, time.Now(), false
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				wait.For(f, "the hour", func() bool {
					return time.Since(began) >= after
				}, func() string { return "it is early" })
				returned = true
			}()
			<-ended
			if f.message != want || returned != (want == "") {
				t.Errorf("after %v: failed with %q, returned %v; want %q", after, f.message, returned, want)
			}
			if took, most := time.Since(began), min(after, wait.Limit); took < most || took > most+20*time.Millisecond {
				t.Errorf("took %v, want %v and 20ms at the most", took, most)
			}
		})
	}
}

// Until ends with its context, and evaluates a slow condition rarely.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began, calls := time.Now(), 0
		if wait.Until(ctx, func() bool { calls++; return false }) || time.Since(began) != 10*time.Second {
			t.Errorf("returned after %v", time.Since(began))
		}
		if calls < 100 || calls > 600 {
			t.Errorf("%d calls in ten seconds", calls)
		}
		if !wait.Until(ctx, func() bool { return true }) {
			t.Error("a condition that holds does not count once the context has ended")
		}
	})
}

// A slow condition is evaluated less often.
func TestUntilOfACostlyCondition(t *testing.T) {
	for takes, most := range map[time.Duration]int{10 * time.Millisecond: 220, 25 * time.Millisecond: 90,
		time.Second: 10} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			calls := 0
			wait.Until(ctx, func() bool { calls++; time.Sleep(takes); return false })
			if calls > most || calls < most*3/4 {
				t.Errorf("%d calls in ten seconds of what takes %v, want %d", calls, takes, most)
			}
		})
	}
}
