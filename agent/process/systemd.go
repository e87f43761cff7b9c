package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	statusDebounce = 200 * time.Millisecond // in which changes are gathered
	statusRefresh  = 10 * time.Second       // for changes without a notification
	stopMargin     = 15 * time.Second       // for the agent to end, in addition to draining its pipelines
)

// Service reloads the pipeline files on request. If systemd started the agent, Service reports its state to systemd:
// sd_notify(3). All fields are set before use.
type Service struct {
	Loop            *reconcile.Loop
	Files           *files.Reconciler
	Reload          <-chan os.Signal                 // requests a reload; nil: never
	ReadFiles       func(ctx context.Context) error  // reads the pipeline files again
	Summary         func(ctx context.Context) string // for systemctl status
	Changes         *notify.Broadcast                // changes of the data in Summary
	Check           func(ctx context.Context) error  // returns the reason why the agent is not alive
	ShutdownTimeout time.Duration                    // for draining the pipelines
	Log             *slog.Logger
}

// Run supervises until ctx ends, then it returns nil.
func (s *Service) Run(ctx context.Context) error {
	if s.Files.Scanned(ctx) != nil || s.Loop.Check(ctx) != nil {
		return nil // it ended before it had started
	}
	last, changed := s.status(ctx), s.Changes.Next()
	s.notify(daemon.SdNotifyReady, last)
	tick := time.NewTicker(statusRefresh)
	defer tick.Stop()
	if os.Getenv("NOTIFY_SOCKET") == "" { // not started by systemd
		changed = nil
		tick.Stop()
	}
	var gathered <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			granted := s.ShutdownTimeout + stopMargin
			s.notify(daemon.SdNotifyStopping, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", granted.Microseconds()))
			return nil
		case <-s.Reload:
			s.notify(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
			s.reload(ctx)
			last = s.status(ctx)
			s.notify(daemon.SdNotifyReady, last)
			continue
		case <-changed:
			changed, gathered = nil, time.After(statusDebounce)
			continue
		case <-gathered:
			changed, gathered = s.Changes.Next(), nil
		case <-tick.C:
		}
		if now := s.status(ctx); now != last {
			last = now
			s.notify(now)
		}
	}
}

// reload reads the files and returns when their changes are being applied, or are known to be wrong.
func (s *Service) reload(ctx context.Context) {
	log := s.Log.With("component", "agent")
	log.Info("reloading the pipeline files")
	if err := s.ReadFiles(ctx); err != nil {
		log.Error("cannot read the pipeline files; running pipelines continue", "err", err)
	}
	_ = s.Loop.Check(ctx)
}

// Watchdog notifies systemd that the agent is alive, every third of the watchdog timeout, for as long as Check returns
// nil. It returns nil when ctx ends.
func (s *Service) Watchdog(ctx context.Context) error {
	log := s.Log.With("component", "agent")
	granted, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("cannot read how often systemd expects a watchdog notification", "err", err)
	}
	if granted == 0 {
		return nil
	}
	tick := time.NewTicker(granted / 3)
	defer tick.Stop()
	for {
		err := s.Check(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			s.notify(daemon.SdNotifyWatchdog)
		} else {
			log.Error("no watchdog notification is sent to systemd", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// status is the assignment that systemctl status shows.
func (s *Service) status(ctx context.Context) string { return "STATUS=" + s.Summary(ctx) }

// notify sends the assignments to systemd in one datagram, if there is a systemd.
func (s *Service) notify(assignments ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(assignments, "\n")); err != nil {
		s.Log.Warn("cannot notify systemd", "component", "agent", "err", err)
	}
}

// Waiting notifies systemd that the agent is up, and waits because of a problem.
func (s *Service) Waiting(problem error) {
	s.notify(daemon.SdNotifyReady, "STATUS=waiting: "+strings.ReplaceAll(problem.Error(), "\n", " "))
}
