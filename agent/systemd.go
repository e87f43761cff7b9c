package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	statusDelay   = 200 * time.Millisecond // in which changes are gathered
	statusRefresh = 10 * time.Second       // for what no change announces
	stopMargin    = 15 * time.Second       // for the agent to end, beside draining its pipelines
)

// supervise has the pipeline files read whenever that is asked for, and tells systemd,
// if that started the agent, how it fares: sd_notify(3).
func (a *Agent) supervise(ctx context.Context) error {
	if a.Files.Looked(ctx) != nil || a.Loop.Check(ctx) != nil {
		return nil // it ended before it was up
	}
	told, changed := a.status(ctx), a.changes.next()
	a.notify(daemon.SdNotifyReady, told)
	tick := time.NewTicker(statusRefresh)
	defer tick.Stop()
	if os.Getenv("NOTIFY_SOCKET") == "" { // nobody listens
		changed = nil
		tick.Stop()
	}
	var gathered <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			granted := a.options.Config.Shutdown.Timeout + stopMargin
			a.notify(daemon.SdNotifyStopping, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", granted.Microseconds()))
			return nil
		case <-a.options.Reload:
			a.notify(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
			a.reloadFiles(ctx)
			told = a.status(ctx)
			a.notify(daemon.SdNotifyReady, told)
			continue
		case <-changed:
			changed, gathered = nil, time.After(statusDelay)
			continue
		case <-gathered:
			changed, gathered = a.changes.next(), nil
		case <-tick.C:
		}
		if now := a.status(ctx); now != told {
			told = now
			a.notify(now)
		}
	}
}

// reloadFiles reads the files and returns when what they say is on its way, or is known
// to be wrong.
func (a *Agent) reloadFiles(ctx context.Context) {
	log := a.options.Log.With("component", "agent")
	log.Info("reading the pipeline files again")
	if err := a.reload(ctx, false); err != nil {
		log.Error("cannot read the pipeline files, what runs keeps running", "err", err)
	}
	_ = a.Loop.Check(ctx)
}

// watchdog tells systemd at every third of the time it grants that the agent is alive,
// as long as the store can be written to and the pipelines are looked after.
func (a *Agent) watchdog(ctx context.Context) error {
	log := a.options.Log.With("component", "agent")
	granted, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("cannot tell how often systemd wants a sign of life", "err", err)
	}
	if granted == 0 {
		return nil
	}
	tick := time.NewTicker(granted / 3)
	defer tick.Stop()
	for {
		err := a.Store.Check(ctx)
		if err == nil {
			err = a.Loop.Check(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			a.notify(daemon.SdNotifyWatchdog)
		} else {
			log.Error("systemd gets no sign of life", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// notify sends the assignments to systemd in one datagram, if there is a systemd.
func (a *Agent) notify(assignments ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(assignments, "\n")); err != nil {
		a.options.Log.Warn("cannot notify systemd", "component", "agent", "err", err)
	}
}

// status is the assignment that systemctl status shows.
func (a *Agent) status(ctx context.Context) string { return "STATUS=" + a.Summary(ctx) }
