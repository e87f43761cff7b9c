package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/spec"
)

// agent checks the running agent, or whether an agent could run.
func (e *examination) agent(ctx context.Context) {
	r, err := e.Dial(e.config, e.at.Address)
	if err != nil {
		e.add("agent", Error, "", "%v", err)
		return
	}
	info, err := r.Info(ctx)
	var unreachable *url.Error
	switch {
	case err != nil && mistrust(err) != "": // an agent answers, and may be well
		e.add("agent", Error, mistrust(err), "the agent at %s and this command do not trust each other: %v", r.At(),
			cause(err))
		e.add("pipelines", Unknown, "", "cannot query the agent")
		return
	case errors.As(err, &unreachable):
		e.port()
		return
	case err != nil:
		e.add("agent", Error, "", "%v", r.Explain(err))
		return
	}
	if info.Version == e.Version {
		e.add("agent", OK, "", "version %s answers at %s", info.Version, r.At())
	} else {
		e.add("agent", Warning, "restart the agent to run the installed version",
			"version %s runs, but this is %s", info.Version, e.Version)
	}
	if a, err := r.Client.Agent(ctx); err == nil && OnThisMachine(&a) {
		e.pid = a.PID
	}
	if follows := r.FollowedDirectory(ctx); FollowsAnother(follows, e.config.Pipelines.Path) {
		e.add("agent", Warning, "run doctor in the agent's working directory, or name its settings with --config.path",
			"the agent watches %s, but the checked files are in %s", follows, e.config.Pipelines.Path)
	}
	statuses, err := r.Statuses(ctx)
	if err != nil {
		e.add("pipelines", Unknown, "", "%v", r.Explain(err))
		return
	}
	failed := 0
	for _, s := range statuses {
		if text, fails := pluginsChanged(&s); text != "" {
			advice := "restart the pipeline when it suits"
			if fails {
				advice = "put the plugin back before the next restart"
			}
			e.add("pipelines", Warning, advice, "%s: %s", s.ID, text)
		}
		if s.State.Phase == spec.PhaseDegraded || s.State.Phase == spec.PhaseRecovering || s.State.Stale() ||
			s.State.Stall != nil {
			failed++
			e.add("pipelines", Error, "'conduit pipelines describe "+s.ID+"' says more", "%s is %s: %s", s.ID,
				doing(&s.State), reason(&s.State))
		}
	}
	if failed == 0 {
		e.add("pipelines", OK, "", "none of %d pipelines fails", len(statuses))
	}
}

// doing returns the phase of a pipeline, or that it runs and delivers nothing.
func doing(s *spec.State) string {
	if s.Stall != nil && s.Phase == spec.PhaseRunning {
		return s.Stall.State()
	}
	return string(s.Phase)
}

// reason returns the reason why a pipeline fails.
func reason(s *spec.State) string {
	switch {
	case s.Error != "":
		return s.Error
	case s.Stall != nil:
		return s.Stall.Message
	}
	return s.LastAttempt.Error
}

// port checks that an agent could serve its API.
func (e *examination) port() {
	e.add("pipelines", Unknown, "", "no agent runs")
	address := e.config.API.HTTP.Address
	l, err := net.Listen("tcp", address)
	if err == nil {
		l.Close()
		e.add("agent", OK, "", "no agent runs; %s is free", address)
		return
	}
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	who := process.PortOwner(number)
	if who != "" { // only root can see the process of another user
		who = ", by " + who
	}
	e.add("agent", Error, "set another api.http.address", "none answers, and %v%s", err, who)
}

// maxExposed is the highest exposure that systemd-analyze may report for the unmodified unit.
const maxExposed = 1.5

// unit checks the service, if systemd runs and knows it.
func (e *examination) unit(ctx context.Context) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		e.add("unit", OK, "", "systemd does not run on this host")
		e.add("sandbox", OK, "", "systemd does not run on this host")
		return
	}
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState,ActiveState,NRestarts,StatusText",
		"conduit.service").Output()
	if err != nil {
		e.add("unit", Unknown, "", "cannot query systemd: %v", err)
		return
	}
	shown := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		shown[name] = value
	}
	switch version := systemdVersion(ctx); {
	case shown["LoadState"] != "loaded":
		e.add("unit", OK, "", "conduit is not installed as a service")
		e.add("sandbox", OK, "", "conduit is not installed as a service")
		return
	case version > 0 && version < minSystemd:
		e.add("unit", Warning, "'systemd-analyze verify conduit.service' lists ignored lines",
			"the unit requires systemd %d, but this is %d", minSystemd, version)
	case shown["ActiveState"] != "active":
		e.add("unit", Error, "'journalctl -u conduit' shows the reason", "the service is %s", shown["ActiveState"])
	case shown["NRestarts"] != "0":
		e.add("unit", Warning, "'journalctl -u conduit' shows the reason", "the service was restarted %s times",
			shown["NRestarts"])
	default:
		e.add("unit", OK, "", "active: %s", shown["StatusText"])
	}
	e.exposure(ctx)
}

// minSystemd is the minimum version of systemd for the unit.
const minSystemd = 252

// systemdVersion returns the version of systemd, 0 if it is unknown.
func systemdVersion(ctx context.Context) (version int) {
	out, err := exec.CommandContext(ctx, "systemctl", "--version").Output()
	if err == nil {
		_, _ = fmt.Sscanf(string(out), "systemd %d", &version) // 0 if the output has another form
	}
	return version
}

// exposure checks that the sandbox of the service is unmodified.
func (e *examination) exposure(ctx context.Context) {
	out, err := exec.CommandContext(ctx, "systemd-analyze", "security", "--no-pager", "conduit.service").Output()
	_, rest, found := strings.Cut(string(out), "Overall exposure level for conduit.service: ")
	score, serr := strconv.ParseFloat(strings.Fields(rest + " -")[0], 64)
	switch {
	case err != nil || !found || serr != nil:
		e.add("sandbox", Unknown, "", "systemd-analyze does not report the exposure of the service")
	case score > maxExposed:
		e.add("sandbox", Warning, "'systemd-analyze security conduit' shows which drop-in settings weaken the sandbox",
			"exposure %.1f of 10", score)
	default:
		e.add("sandbox", OK, "", "exposure %.1f of 10", score)
	}
}
