package store_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// A save fault is over when the probe passes, not when some other save does.
func TestAFaultLastsAsLongAsTheProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log wait.Buffer
		full := errors.New("full")
		var saves, probes atomic.Bool // they pass
		var retried atomic.Int32
		unless := func(passes *atomic.Bool) error {
			if passes.Load() {
				return nil
			}
			return full
		}
		g := &store.Guard{
			InPlace: func() error { return nil },
			Fault:   func() error { return unless(&saves) },
			Past:    func() error { return unless(&saves) },
			Probe:   func(context.Context) error { return unless(&probes) },
			Retry:   func() { retried.Add(1) },
			Changed: func() {},
			Log:     slog.New(slog.NewTextHandler(&log, nil)),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = g.Run(ctx); close(ended) }()
		expect := func(after, want string, retries int32) {
			t.Helper()
			time.Sleep(10 * store.PlaceInterval)
			synctest.Wait()
			if got := log.String(); strings.Count(got, "msg=") != int(retries)+1 || !strings.Contains(got, want) ||
				retried.Load() != retries {
				t.Errorf("%s: retried %d times, log:\n%s", after, retried.Load(), got)
			}
		}
		expect("nothing is saved", "cannot save the state", 0)
		saves.Store(true)
		expect("a small save passed", "cannot save the state", 0)
		probes.Store(true)
		expect("the probe passes", "saved again", 1)
		cancel()
		<-ended
	})
}

// A fault that is over before it is observed is reported once, even if the agent ends.
func TestAFaultOfAMomentIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log wait.Buffer
		past := make(chan error, 1)
		var retried atomic.Int32
		none := func() error { return nil }
		g := &store.Guard{
			InPlace: none, Fault: none, Probe: func(context.Context) error {
				return nil
			}, Retry: func() { retried.Add(1) }, Changed: func() {},
			Past: func() error {
				select {
				case err := <-past:
					return err
				default:
					return nil
				}
			},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = g.Run(ctx); close(ended) }()
		past <- errors.New("first")
		time.Sleep(10 * store.PlaceInterval)
		synctest.Wait()
		if got := log.String(); strings.Count(got, "msg=") != 1 || !strings.Contains(got, "err=first") ||
			retried.Load() != 1 {
			t.Errorf("retried %d times, the log is\n%s", retried.Load(), got)
		}
		past <- errors.New("second")
		cancel()
		<-ended
		if got := log.String(); strings.Count(got, "msg=") != 2 || !strings.Contains(got, "err=second") {
			t.Errorf("the log is\n%s", got)
		}
	})
}
