package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Wait returns when all goroutines have ended, including those started by others.
func TestGoroutinesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ended := newGoroutines(), 0
		g.Start("first", func() {
			g.Start("second", func() { time.Sleep(time.Hour); ended++ })
			time.Sleep(time.Minute)
		})
		begin := time.Now()
		if err := g.Wait(t.Context()); err != nil || ended != 1 || time.Since(begin) != time.Hour {
			t.Errorf("error %v, %d ended, after %v", err, ended, time.Since(begin))
		}
		g.Start("late", func() { t.Error("it was started though the group is over") })
		synctest.Wait()
	})
}

func TestWaitForNoGoroutines(t *testing.T) {
	if err := newGoroutines().Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// Goroutines that ignore the end of the context are abandoned after abandonAfter, and named.
func TestWaitAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, free := newGoroutines(), make(chan struct{})
		g.Start("write", func() { <-free })
		g.Start("ack", func() { <-free })
		g.Start("read", func() {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		err := g.Wait(ctx)
		if err == nil || !strings.Contains(err.Error(), "cannot end ack, write: it has not returned 10s after") ||
			time.Since(begin) != time.Hour+abandonAfter {
			t.Errorf("error %v after %v", err, time.Since(begin))
		}
		close(free)
		synctest.Wait()
	})
}

// A function that returns within abandonAfter of the end of the context is not abandoned.
func TestAbandonable(t *testing.T) {
	failed := errors.New("failed")
	for took, want := range map[time.Duration]string{
		time.Second:                    "failed",
		time.Minute + abandonAfter - 1: "failed",
		time.Minute + abandonAfter + 1: "cannot end the call",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := abandonable(ctx, func() error {
				time.Sleep(took)
				return failed
			}, func() string { return "the call" })
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("after %v: %v", took, err)
			}
			time.Sleep(time.Second) // f ends
		})
	}
}
