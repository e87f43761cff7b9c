package notify_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/spec/notify"
)

func TestSignalCoalesces(t *testing.T) {
	s := notify.NewSignal()
	select {
	case <-s:
		t.Fatal("a signal without Notify is received")
	default:
	}
	for range 3 {
		s.Notify()
	}
	<-s
	select {
	case <-s:
		t.Error("three notifications are received more than once")
	default:
	}
	s.Notify()
	<-s
}

// TestThrottleLogsLessAndLess observes failures for six hours, a success, and another failure.
func TestThrottleLogsLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		lines := func() int { return strings.Count(out.String(), "\n") }
		throttle := notify.Throttle{Fails: "cannot", Recovered: "can again"}
		throttle.Observe(log, nil)
		if lines() != 0 {
			t.Fatalf("logged although nothing failed: %s", &out)
		}
		broken, began := errors.New("broken"), time.Now()
		for time.Since(began) < 6*time.Hour {
			throttle.Observe(log, broken)
			time.Sleep(time.Second)
		}
		// At 0, 1, 3, 7, 15, 31 and 63 minutes, and then every hour.
		if n := lines(); n != 11 {
			t.Errorf("%d lines in six hours, want 11:\n%s", n, &out)
		}
		out.Reset()
		throttle.Observe(log, nil)
		throttle.Observe(log, nil)
		if n := strings.Count(out.String(), "can again"); n != 1 || lines() != 1 {
			t.Errorf("not logged once that it works: %s", &out)
		}
		throttle.Observe(log, broken)
		throttle.Observe(log, broken)
		throttle.Reset()
		throttle.Observe(log, broken)
		if n := strings.Count(out.String(), "err=broken"); n != 2 {
			t.Errorf("failures after the recovery and after Reset are logged %d times, want 2: %s", n, &out)
		}
	})
}

func TestBroadcast(t *testing.T) {
	var b notify.Broadcast
	b.Notify() // no listener
	first, second := b.Next(), b.Next()
	select {
	case <-first:
		t.Fatal("a change from before is notified")
	default:
	}
	b.Notify()
	<-first
	<-second
	select {
	case <-b.Next():
		t.Error("one change is notified twice")
	default:
	}
}
