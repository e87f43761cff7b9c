package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

// doctorCommand returns 'conduit doctor'.
func doctorCommand(p *Program) *ffcli.Command {
	flags := NewFlags("doctor")
	at := NewAgentFlags(flags, "pipelines.path", "connectors.path", "processors.path", "db.sqlite.path",
		"api.http.address")
	asJSON := flags.Bool("json", false, "print JSON")
	return &ffcli.Command{
		Name:       "doctor",
		ShortUsage: "conduit doctor [flags]",
		ShortHelp:  "Check the agent, its files and the host, and print remedies.",
		LongHelp: `Checks settings, pipeline files and their references, plugins, the store, the disk, the clock,
limits of the kernel and the control group, the systemd unit, and the running agent, if any: all
rows of the table "What it needs" of 'conduit docs'. Limits are those of the running agent, or else
those of this command. The command changes nothing, except that it writes a file of a few KiB next to
the store to measure the disk, and removes it.

The exit code is 1 when a check finds an error: the agent could not run, or could lose data.
References are resolved for the user who runs this command; the service may see other variables.

Examples:
  conduit doctor
  conduit doctor --config.path /etc/conduit/conduit.yaml --json`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			if _, err := Positional(flags, args, 0); err != nil {
				return err
			}
			e := &examination{Program: p, at: at}
			e.all(ctx)
			return e.report(*asJSON)
		},
	}
}

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // works, but not as well as possible
	Error   Level = "error"   // the agent cannot run, or not safely
	Unknown Level = "unknown" // could not be examined
)

// Finding is the result of a check.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // a remedy
}

// examination collects findings.
type examination struct {
	*Program
	at       *AgentFlags
	config   config.Config
	catalog  Catalog
	pid      int // of the running agent on this machine; 0: none, or unknown
	findings []Finding
}

func (e *examination) add(check string, level Level, advice, format string, args ...any) {
	e.findings = append(e.findings, finding(check, level, advice, format, args...))
}

func finding(check string, level Level, advice, format string, args ...any) Finding {
	if level == OK {
		advice = ""
	}
	return Finding{check, level, terminal.OneError(fmt.Sprintf(format, args...)), advice}
}

// all makes every check. Without settings there is little to examine.
func (e *examination) all(ctx context.Context) {
	c, err := e.at.Load(e.Program)
	if err != nil {
		e.add("settings", Error, "correct the line; 'conduit schema config' prints the settings", "%v", err)
		e.clock()
		return
	}
	e.config = c
	e.catalog = e.Catalog(c, slog.New(slog.DiscardHandler))
	if err := misplaced(c); err != nil { // the files here are not those of the agent
		e.add("settings", Warning, "", "%v", err)
	} else {
		e.add("settings", OK, "", "valid")
		e.pipelines(ctx)
		e.plugins(ctx)
		e.state(ctx)
	}
	e.permissions()
	e.certificate(time.Now())
	e.notifications()
	e.telemetry(ctx)
	e.findings = append(e.findings, examineCluster(ctx, e.config.Cluster, e.Parts.Cluster))
	e.agent(ctx)
	e.machine()
	e.clock()
	e.unit(ctx)
}

// errFound ends the command when there are errors, which were printed.
var errFound = errors.New("")

func (e *examination) report(asJSON bool) error {
	var err error
	for _, f := range e.findings {
		if f.Level == Error {
			err = errFound
		}
	}
	if asJSON {
		return errors.Join(e.WriteJSON(e.findings), err)
	}
	var t terminal.Table
	colors := map[Level]string{OK: terminal.Green, Warning: terminal.Yellow, Error: terminal.Red, Unknown: terminal.Dim}
	for _, f := range e.findings {
		t.Add(terminal.Colored(string(f.Level), colors[f.Level]), f.Check, f.Message)
		if f.Advice != "" {
			t.Add("", "", "→ "+f.Advice)
		}
	}
	if werr := t.Write(e.Stdout, e.Paint); werr != nil {
		return werr
	}
	return err
}

// earliest is a time in the past: a clock before it is wrong.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clock checks the time: with a wrong clock, certificates, retention and windows are wrong.
func (e *examination) clock() {
	now := time.Now()
	synchronized, known := clockSynchronized()
	switch {
	case now.Before(earliest):
		e.add("clock", Error, "set the clock, or wait for the network: TLS certificates appear not yet valid",
			"it is %s", now.Format(time.RFC3339))
	case known && !synchronized:
		e.add("clock", Warning, "run a time service: systemd-timesyncd, chrony", "%s, but no service synchronizes "+
			"the clock",
			now.UTC().Format(time.RFC3339))
	default:
		e.add("clock", OK, "", "%s", now.UTC().Format(time.RFC3339))
	}
}
