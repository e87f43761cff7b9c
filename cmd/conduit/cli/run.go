package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/cmd/conduit/logging"
)

func runCommand(p *Program) *ffcli.Command {
	flags := NewFlags("run")
	s := SettingFlags(flags)
	s.Own = true
	var o onceFlags
	flags.BoolVar(&o.once, "once", false, "exit when every source is at its end or idle")
	flags.DurationVar(&o.idle, "idle", 5*time.Second,
		"with --once: idle time after which a source without an end counts as done")
	return &ffcli.Command{
		Name:       "run",
		ShortUsage: "conduit run [flags]",
		ShortHelp:  "Run the pipelines declared in the pipelines directory.",
		LongHelp: `Settings come from conduit.yaml, from variables such as CONDUIT_LOG_LEVEL, and from these
flags; the later ones win. Relative paths in all of them begin at the working directory.

SIGINT or SIGTERM stops the agent gracefully: sources stop, and in-flight records are written and
acknowledged first. A second signal ends it at once. SIGHUP reloads the pipeline files, except on a
terminal, where it means that the terminal is gone.

With --once the agent exits when every source has read all its data, or delivered nothing for the
time --idle, and all records are settled. The last line of a file counts even without a newline, and
incomplete batches and windows are written. The exit code is 0 if all pipelines ran as declared,
refused no record and skipped nothing, such as an unreadable file, and no source has unread data;
otherwise it is 1. A named file, table or bucket must exist; a pattern or a prefix may match nothing,
which is a warning for files. Sources that have no end, such as mqtt or syslog, are listed.
A failed pipeline is retried three times, unless pipelines.error-recovery.max-retries is set.

Examples:
  conduit run --log.level debug
  conduit run --once --idle 30s`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			if _, err := Positional(flags, args, 0); err != nil {
				return err
			}
			if o.once {
				return runOnce(ctx, p, s, o.idle)
			}
			return runAgent(ctx, p, s, nil)
		},
	}
}

// runAgent runs the agent until a signal, or until o, if it is set, is done.
func runAgent(ctx context.Context, p *Program, s *Settings, o *once) error {
	reload := make(chan os.Signal, 1)
	if !p.Terminal { // first of all, as an early reload would end the process
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
	}
	c, err := s.Load(p)
	if err != nil {
		return err
	}
	if o != nil {
		if err := o.prepare(&c, s); err != nil {
			return err
		}
	}
	if err := misplaced(c); err != nil {
		return err
	}
	if NothingAt(config.DefaultPath, c.Pipelines.Path, c.DB.SQLite.Path) { // probably the wrong directory
		fmt.Fprintf(p.Stderr, "conduit: nothing is set up here: %s, the directory %s and the state in %s do not "+
			"exist.\n"+
			"'conduit init' and 'conduit pipelines init' in this directory write a first pipeline, which starts at "+
			"once.\n", config.DefaultPath, c.Pipelines.Path, c.DB.SQLite.Path)
	}
	ctx, stop := UntilSignal(ctx)
	defer stop()
	version := thisBuild().Version
	if p.Terminal && c.Log.Format == "cli" {
		fmt.Fprintf(p.Stdout, "conduit %s   pipelines: %s   state: %s   Ctrl-C to stop\n", version, c.Pipelines.Path,
			c.DB.SQLite.Path)
	}
	handler, endLog := logHandler(p, c.Log)
	defer endLog()
	log := slog.New(handler)
	if err := process.Isolate(); err != nil {
		log.Warn("the agent is not fully isolated from its connector processes", "component", "agent", "err", err)
	}
	if p.Getenv("GOMEMLIMIT") == "" { // or else the runtime has read it
		process.LimitMemory(process.MemoryLimitOf(c.Memory.Limit))
	}
	releasePages(log) // of the initialization of packages, most of all that startup needs
	ctx, end := context.WithCancel(ctx)
	defer end()
	started := func(a *agent.Agent) {
		if o != nil {
			go o.wait(ctx, a, end)
		}
		go releaseMemory(ctx, log)
	}
	return p.Agent(ctx, agent.Options{
		Config: c, Plugins: p.Parts.Plugins, References: p.Parts.References, Cluster: p.Parts.Cluster,
		Profiles: p.Parts.Profiles, Isolate: p.Parts.Isolate, ToolServer: p.Parts.ToolServer,
		Exporter: p.Parts.Exporter,
		Log:      log, Version: version, Started: started, Reload: reload, Docs: p.Docs,
	})
}

// logHandler returns the handler of the agent's log, and a function that ends it. In the format for people, entries go
// to the journal with separate fields, if it can be reached, or else to stdout as lines. Neither blocks the goroutine
// that logs.
func logHandler(p *Program, c config.Log) (h slog.Handler, end func()) {
	format := logFormat(p, c.Format)
	if format == "journal" && p.JournalSocket != "" {
		if w, err := logging.OpenJournal(p.JournalSocket); err == nil {
			return w.Handler(c.Level), w.Close
		}
	}
	out, _ := p.Streams() // the handler escapes by itself
	q := logging.NewQueue(out)
	return logging.NewHandler(q, format, c.Level, p.Color()), q.Close
}

// logFormat returns the effective log format for the setting log.format: in the journal, the format for people is the
// journal's own.
func logFormat(p *Program, setting string) string {
	if setting == "cli" && p.Journal {
		return "journal"
	}
	return setting
}

// startupTime is an upper bound for the time in which an agent with few pipelines starts. Memory that startup needed is
// kept for that long.
const startupTime = 2 * time.Second

// releaseMemory releases memory that is no longer needed, after startup and then ever less often, until ctx ends: a
// thousand pipelines start longer than a few, and a single query of the interface needs memory as startup does.
func releaseMemory(ctx context.Context, log *slog.Logger) {
	releasePages(log)
	const less = 4
	for pause := startupTime; ; pause *= less {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := process.ReleaseMemory(); err != nil {
			log.Debug("cannot release memory used only for a time", "component", "agent", "err", err)
		}
	}
}

// releasePages releases the pages of the executable, so that one phase of startup does not add to the peak of the next.
func releasePages(log *slog.Logger) {
	if err := process.ReleasePages(); err != nil {
		log.Debug("cannot release memory used only for a time", "component", "agent", "err", err)
	}
}
