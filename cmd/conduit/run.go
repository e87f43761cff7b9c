package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	machine "github.com/conduit-agent/conduit/agent/host"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/logging"
)

func runCommand(p *cli.Program) *ffcli.Command {
	flags := cli.NewFlags("run")
	s := cli.SettingFlags(flags)
	return &ffcli.Command{
		Name:       "run",
		ShortUsage: "conduit run [flags]",
		ShortHelp:  "Run the pipelines declared in the pipelines directory.",
		LongHelp: `Settings come from conduit.yaml, from variables such as CONDUIT_LOG_LEVEL, and from these
flags; the later ones win.

SIGINT or SIGTERM ends it gracefully: sources stop, and records in flight are written and
acknowledged first. A second signal ends it at once. SIGHUP has the pipeline files read again,
except on a terminal, where it means that the terminal is gone.

Example:
  conduit run --log.level debug`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			if _, err := cli.Positional(flags, args, 0); err != nil {
				return err
			}
			return runAgent(ctx, p, s)
		},
	}
}

func runAgent(ctx context.Context, p *cli.Program, s *cli.Settings) error {
	reload := make(chan os.Signal, 1)
	if !p.Terminal { // first of all, or a reload that comes early ends it
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
	}
	c, err := s.Load(p)
	if err != nil {
		return err
	}
	if nothingThere(c) {
		fmt.Fprintf(p.Stderr, "conduit: nothing is set up here: there is no %s, no directory %s and no state in %s.\n"+
			"'conduit init' and 'conduit pipelines init' in this directory write a first pipeline, which starts at once.\n", config.DefaultPath, c.Pipelines.Path, c.DB.SQLite.Path)
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	version := thisBuild().Version
	if p.Terminal && c.Log.Format == "cli" {
		fmt.Fprintf(p.Stdout, "conduit %s   pipelines: %s   state: %s   Ctrl-C to stop\n", version, c.Pipelines.Path, c.DB.SQLite.Path)
	}
	log := slog.New(logging.NewHandler(p.Stdout, logFormat(p, c.Log.Format), c.Log.Level, p.Color()))
	if err := machine.Isolate(); err != nil {
		log.Warn("the agent is not fully apart from the connectors that it starts", "component", "agent", "err", err)
	}
	if p.Getenv("GOMEMLIMIT") == "" { // or else the runtime has read it
		machine.LimitMemory(machine.MemoryLimitOf(c.Memory.Limit))
	}
	started := func(*agent.Agent) {
		time.AfterFunc(startupTime, func() {
			if err := machine.ReleaseMemory(); err != nil {
				log.Debug("memory that only starting needed is kept", "component", "agent", "err", err)
			}
		})
	}
	return p.Agent(ctx, agent.Options{Config: c, Log: log, Version: version, Started: started, Reload: reload})
}

// nothingThere reports whether the agent would run with neither settings nor pipelines: most
// likely in the wrong directory.
func nothingThere(c config.Config) bool {
	for _, path := range []string{config.DefaultPath, c.Pipelines.Path, c.DB.SQLite.Path} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// logFormat returns the format that is meant by the setting log.format: to the journal,
// people's lines go in its own.
func logFormat(p *cli.Program, setting string) string {
	if setting == "cli" && p.Journal {
		return "journal"
	}
	return setting
}

// startupTime is when starting is over for certain. What it needed is kept so long.
const startupTime = 2 * time.Second
