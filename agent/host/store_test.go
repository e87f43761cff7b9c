package host

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/logbuf"
)

// A save that failed is over when the probe passes, not when some other save does.
func TestAFaultLastsAsLongAsTheProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logbuf.Buffer
		full := errors.New("full")
		fault, probe, retried := full, full, 0
		g := &StoreGuard{
			InPlace: func() error { return nil },
			Fault:   func() error { return fault },
			Probe:   func(context.Context) error { return probe },
			Retry:   func() { retried++ },
			Changed: func() {},
			Log:     slog.New(slog.NewTextHandler(&log, nil)),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = g.Run(ctx); close(ended) }()
		expect := func(after, want string, retries int) {
			t.Helper()
			time.Sleep(10 * placeInterval)
			synctest.Wait()
			if got := log.String(); strings.Count(got, "msg=") != retries+1 || !strings.Contains(got, want) || retried != retries {
				t.Errorf("%s: retried %d times, log:\n%s", after, retried, got)
			}
		}
		expect("nothing is saved", "cannot be saved", 0)
		fault = nil
		expect("a small save passed", "cannot be saved", 0)
		probe = nil
		expect("the probe passes", "saved again", 1)
		cancel()
		<-ended
	})
}
