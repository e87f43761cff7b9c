package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conduit-agent/conduit/agent"
	plugincatalog "github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/docs"
	"github.com/conduit-agent/conduit/cmd/conduit/tools"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"conduit": func() {
		os.Exit(cli.Run(context.Background(), scripted(os.Stdout, os.Stderr), os.Args[1:]))
	}})
}

// scripted is the program of the scripts.
func scripted(stdout, stderr io.Writer) *cli.Program {
	return &cli.Program{
		Stdout: stdout, Stderr: stderr, Environ: os.Environ(), Version: cli.Version(),
		Catalog: func(c config.Config, log *slog.Logger) cli.Catalog {
			if os.Getenv("PLUGINS") == "real" {
				return plugincatalog.Offline(parts.Plugins(), c, log)
			}
			return fakeCatalog{}
		},
		Agent: fakeAgent,
		Parts: cli.Parts{
			Plugins: parts.Plugins(), References: reference.Kinds(), Cluster: parts.Cluster(),
			Exporter: parts.Exporter, Site: docs.Site, Docs: tools.Docs,
			Commands:       []func(*cli.Program) *ffcli.Command{tools.Prove, tools.MCP},
			PluginCommands: []func(*cli.Program) *ffcli.Command{tools.PluginsInit, tools.PluginsSDK},
		},
	}
}

// TestScripts runs the scripts one after another, because their commands run in the process of the test, with the
// directory and the variables of the script: the start of a process takes more CPU time than most commands. A command
// after exec or eventually is a process.
func TestScripts(t *testing.T) {
	dir, err := filepath.Abs("testdata/script")
	if err != nil {
		t.Fatal(err)
	}
	variables := variablesIn(t, dir)
	testscript.RunT(serial{t}, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0") // or every process takes a second
			e.Setenv("CONDUIT_API_HTTP_ADDRESS", "127.0.0.1:0")
			for _, v := range e.Vars {
				name, _, _ := strings.Cut(v, "=")
				variables[name] = true
			}
			e.Values[variablesOf{}] = variables
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"call": call, "exits": exits,
			"eventually": eventually, "address": address},
	})
}

// serial runs subtests one after another.
type serial struct{ *testing.T }

func (serial) Parallel() {}

func (serial) Verbose() bool { return testing.Verbose() }

func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

// variablesOf is the key of the names of the variables that scripts may set.
type variablesOf struct{}

// variablesIn returns the names of the variables that the scripts in dir and this file set. A script cannot list its
// variables.
func variablesIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{"AGENT": true}
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	for _, path := range paths {
		text, failed := os.ReadFile(path)
		err = errors.Join(err, failed)
		for _, line := range regexp.MustCompile(`(?m)^env .*`).FindAllString(string(text), -1) {
			for _, m := range regexp.MustCompile(` (\w+)=`).FindAllStringSubmatch(line, -1) {
				names[m[1]] = true
			}
		}
	}
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d scripts, %v", len(paths), err)
	}
	return names
}

// call conduit ARG... runs a command in this process.
func call(ts *testscript.TestScript, wantErr bool, args []string) {
	if code := inProcess(ts, args); (code != 0) != wantErr {
		ts.Fatalf("ended with %d", code)
	}
}

// inProcess runs a command with the directory and the variables of the script, and returns its exit code.
func inProcess(ts *testscript.TestScript, args []string) int {
	if len(args) == 0 || args[0] != "conduit" {
		ts.Fatalf("usage: call|exits CODE conduit [ARG...]")
	}
	own := os.Environ()
	before, err := os.Getwd()
	ts.Check(err)
	defer func() {
		_ = os.Chdir(before)
		os.Clearenv()
		setAll(own)
	}()
	os.Clearenv()
	for name := range ts.Value(variablesOf{}).(map[string]bool) {
		if value := ts.Getenv(name); value != "" {
			ts.Check(os.Setenv(name, value))
		}
	}
	ts.Check(os.Chdir(ts.MkAbs(".")))
	return cli.Run(context.Background(), scripted(ts.Stdout(), ts.Stderr()), args[1:])
}

// setAll sets environment variables.
func setAll(variables []string) {
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		_ = os.Setenv(name, value)
	}
}

// exits CODE conduit ARG... is call for a command that must end with this exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if code := inProcess(ts, args[1:]); strconv.Itoa(code) != args[0] {
		ts.Fatalf("ended with %d, not with %s", code, args[0])
	}
}

// address makes the agents and clients of the script use a free address.
func address(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv("CONDUIT_API_HTTP_ADDRESS", l.Addr().String())
	ts.Setenv("AGENT", "real")
}

// eventually PATTERN COMMAND ARG... runs the command until its output matches.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern, out := regexp.MustCompile("(?m)"+args[0]), ""
	pause, between := time.After(0), 25*time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	var err error
	if !wait.Until(ctx, func() bool {
		<-pause // a process takes CPU time to start
		between = min(2*between, 400*time.Millisecond)
		pause = time.After(between)
		err = ts.Exec(args[1], args[2:]...)
		out = ts.ReadFile("stdout")
		return pattern.MatchString(out)
	}) {
		ts.Fatalf("%v: ended with %v, and never printed %s:\n%s", args[1:], err, args[0], out)
	}
}

// fakeAgent prints its options. FAIL, if set, selects its error, and otherwise WAIT selects how it ends. When AGENT is
// real it runs the real agent.
func fakeAgent(ctx context.Context, o agent.Options) error {
	if os.Getenv("AGENT") == "real" {
		return agent.Run(ctx, o)
	}
	o.Log.Info("agent started", "component", "agent", "path", o.Config.Pipelines.Path, "loglevel", o.Config.Log.Level)
	switch os.Getenv("FAIL") {
	case "runtime":
		return fmt.Errorf("cannot go on")
	case "permission":
		return fmt.Errorf("cannot open store: %w", os.ErrPermission)
	case "locked":
		return lockedError{}
	}
	switch os.Getenv("WAIT") {
	case "graceful":
		for ctx.Err() == nil {
			select {
			case <-o.Reload:
				o.Log.Info("agent reloads", "component", "agent")
			case <-ctx.Done():
			}
		}
		o.Log.Info("agent stopped", "component", "agent")
	case "stuck":
		<-ctx.Done()
		o.Log.Info("agent stopping", "component", "agent")
		select {}
	}
	return nil
}

type lockedError struct{}

func (lockedError) Error() string     { return "cannot open store: in use by process 7" }
func (lockedError) Environment() bool { return true }

// fakeCatalog has a source and a destination with every kind of parameter.
type fakeCatalog struct{}

var fakeParameters = map[string]sdk.Parameters{
	"source generator": {
		"rate": {Description: "Records per second.", Type: sdk.TypeFloat, Default: "0"},
		"format.type": {Description: "Kind of data.", Type: sdk.TypeString, Default: "structured",
			Validations: []sdk.Validation{{Type: sdk.ValidationInclusion, Value: "raw,structured"}}},
		"format.options.*": {Description: "Type of a field.\nThe name is the field's.", Type: sdk.TypeString},
	},
	"source file": {"path": {Description: "File to read.", Type: sdk.TypeString,
		Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}}},
	"destination file": {"path": {Description: "File to write.", Type: sdk.TypeString,
		Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}}},
	"destination log": {"message": {Description: "Text of the line.", Type: sdk.TypeString}},
}

func (fakeCatalog) Parameters(_ context.Context, plugin string, typ spec.ConnectorType) (sdk.Parameters, error) {
	p, ok := fakeParameters[string(typ)+" "+cli.PlainName(plugin)]
	if !ok {
		return nil, fmt.Errorf("no such %s plugin: %s", typ, plugin)
	}
	return p, nil
}

var fakePlugins = []plugins.Installed{
	{Kind: pluginname.Builtin, Specification: sdk.Specification{Name: "file", Version: "v1.0.0",
		Summary: "Reads and\nwrites \x1b[31mfiles.", Source: fakeParameters["source file"],
		Destination: fakeParameters["destination file"]}},
	{Kind: pluginname.Standalone, Path: "connectors/made", Specification: sdk.Specification{Name: "made",
		Version: "v0.1.0", Author: "Somebody", Description: "Makes records.\nMany.", Source: sdk.Parameters{
			"rate": {Description: "Records per second.", Type: sdk.TypeFloat, Default: "1",
				Validations: []sdk.Validation{{Type: sdk.ValidationGreaterThan, Value: "0"},
					{Type: sdk.ValidationLessThan, Value: "9"}}},
			"color": {Validations: []sdk.Validation{{Type: sdk.ValidationRequired},
				{Type: sdk.ValidationInclusion, Value: "red,blue"}}},
			"name": {Validations: []sdk.Validation{{Type: sdk.ValidationRegex, Value: "^a{1,2}$"},
				{Type: sdk.ValidationExclusion, Value: "a"}}},
		}}},
	{Kind: pluginname.Standalone, Path: "connectors/mute",
		Specification: sdk.Specification{Name: "mute", Version: "v1.0.0", Destination: sdk.Parameters{}}},
}

func (fakeCatalog) Plugins(context.Context) ([]plugins.Installed, []plugins.Problem) {
	return fakePlugins, []plugins.Problem{{Path: "connectors/notes.txt", Reason: "it is not\nexecutable"}}
}

// fakeProcessor is the processor of a module.
type fakeProcessor struct{ sdk.ProcessorBase }

func (fakeProcessor) Configure(context.Context, map[string]string) error { return nil }

func (fakeProcessor) Process(context.Context, *sdk.ProcessBatch) error { return nil }

func (fakeProcessor) Parameters() sdk.Parameters {
	return sdk.Parameters{"field": {Description: "What it changes.", Type: sdk.TypeString,
		Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}}}
}

func (fakeCatalog) RawLane(context.Context, *spec.Pipeline) map[string]string { return nil }

// Notes has a note on each source that reads a file that does not exist.
func (fakeCatalog) Notes(_ context.Context, p *spec.Pipeline) map[string][]string {
	notes := map[string][]string{}
	for _, c := range p.Connectors {
		if path := c.Settings["path"]; c.Type == spec.TypeSource && strings.HasSuffix(path, "/*.none") {
			notes[c.ID] = []string{"no file matches " + path}
		}
	}
	return notes
}

func (fakeCatalog) KnownProcessors(context.Context) *processor.Registry {
	return &processor.Registry{Builtin: processors.All(), Standalone: func() []sdk.ProcessorPlugin {
		return []sdk.ProcessorPlugin{{Name: "mine", Version: "v0.2.0", Author: "Somebody",
			Summary: "Does \x1b[31mthings.",
			New:     func() sdk.Processor { return fakeProcessor{} }}}
	}}
}

func (fakeCatalog) Plugin(_ context.Context, ref string) (plugins.Installed, error) {
	for _, p := range fakePlugins {
		if p.Name == cli.PlainName(ref) {
			return p, nil
		}
	}
	return plugins.Installed{}, fmt.Errorf("cannot find plugin %q", ref)
}

func (f fakeCatalog) Check(ctx context.Context, p *spec.Pipeline) []spec.Problem {
	var problems []spec.Problem
	for i, c := range p.Connectors {
		at := fmt.Sprintf("/connectors/%d", i)
		parameters, err := f.Parameters(ctx, c.Plugin, c.Type)
		if err != nil {
			problems = append(problems, spec.Problem{Path: at + "/plugin", Severity: spec.SeverityError,
				Code: "config.plugin_not_found", Message: err.Error()})
			continue
		}
		for name := range c.Settings {
			if _, ok := parameters[name]; !ok {
				problems = append(problems, spec.Problem{Path: at + "/settings/" + name, Severity: spec.SeverityWarning,
					Code: "config.setting_unknown", Message: "no such setting: " + name})
			}
		}
		if parameters["path"].Type != 0 && c.Settings["path"] == "" {
			problems = append(problems, spec.Problem{Path: at + "/settings/path", Severity: spec.SeverityError,
				Code: "config.setting_required", Message: "setting path is required"})
		}
	}
	return problems
}
