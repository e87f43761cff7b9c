package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/spec/texts"
)

// PluginsInit returns 'conduit plugins init'.
func PluginsInit(p *cli.Program) *ffcli.Command {
	flags := cli.NewFlags("init")
	dir := flags.String("path", "", "`DIR` to write to (default the name)")
	processor := flags.Bool("processor", false, "create a processor (a WebAssembly module) instead of a connector")
	python := flags.Bool("python", false, "create a connector in Python instead of Go")
	replace := flags.String("replace", "", "build against the checkout of the agent in `DIR`, not a copy of the SDK")
	modules := flags.String("modules", "",
		"archive `FILE` of a release with all modules, for builds without a network (default "+installedModules+
			" if it is there)")
	return &ffcli.Command{
		Name:       "init",
		ShortUsage: "conduit plugins init NAME [flags]",
		ShortHelp:  "Create the source code of a connector or a processor.",
		LongHelp: `Writes a directory with a Go program that implements a connector: a source, a destination, tests of
both, and a README with build instructions. With --processor it implements a processor, which is
built as a WebAssembly module. Existing files are not overwritten. The directory contains a copy of
the SDK, so that no checkout is needed. With --modules it also contains all other modules, from the
archive that packages install and releases contain, so that nothing is downloaded.

With --python the connector is one executable file that needs python3-grpcio; the directory also
contains the messages of the protocol as .proto files, for connectors in other languages.

Examples:
  conduit plugins init mine
  conduit plugins init --processor mine
  conduit plugins init --python mine`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			name, err := cli.Argument(flags, args, "no name given; for example: conduit plugins init mine")
			if err != nil {
				return err
			}
			plugin := Plugin{Kind: ConnectorPlugin, Name: name, Replace: *replace, Modules: *modules}
			if *processor {
				plugin.Kind = ProcessorPlugin
			}
			if err := checkName(plugin); err != nil {
				return err
			}
			if isBuiltin(ctx, p, plugin) {
				fmt.Fprintf(p.Stderr, "warning: there is a built-in %s %s: while yours is installed, pipelines with "+
					"\"plugin: %[2]s\" use yours; choose another name unless that is intended\n", plugin.Kind, name)
			}
			to := cmp.Or(*dir, name)
			if *python {
				if err := checkPython(*processor, *replace, *modules); err != nil {
					return err
				}
				return created(p, to, WritePython(to, name))
			}
			return initPlugin(p, plugin, to)
		},
	}
}

// pluginName matches names that are valid for a plugin, a Go module and a pipeline.
var pluginName = texts.Regexp(`^[a-z][a-z0-9-]{0,59}$`)

// installedModules is the path at which packages install the archive of modules.
const installedModules = "/usr/share/conduit/modules.tar.zst"

func checkName(plugin Plugin) error {
	if !pluginName().MatchString(plugin.Name) {
		return cli.Invalidf("invalid name for a %s: %q; use at most 60 lower-case letters, digits and '-', beginning "+
			"with a letter", plugin.Kind, plugin.Name)
	}
	return nil
}

// isBuiltin reports whether a built-in plugin has the kind and the name of plugin.
func isBuiltin(ctx context.Context, p *cli.Program, plugin Plugin) (is bool) {
	var c config.Config
	c.Connectors.Path, c.Processors.Path = os.DevNull, os.DevNull // no executables of the working directory
	known := p.Catalog(c, slog.New(slog.DiscardHandler))
	if plugin.Kind == ProcessorPlugin {
		_, is, _ = known.KnownProcessors(ctx).Find("builtin:" + plugin.Name) // an error: there is none
		return is
	}
	_, err := known.Plugin(ctx, "builtin:"+plugin.Name)
	return err == nil
}

func initPlugin(p *cli.Program, plugin Plugin, dir string) (err error) {
	plugin.Version = sdkVersion(p.Version)
	switch {
	case plugin.Replace != "" && plugin.Modules != "":
		return cli.Invalidf("--modules requires the copy of the SDK: omit --replace, or run 'go mod vendor' in " +
			"the folder")
	case plugin.Replace != "":
		if plugin.Replace, err = checkout(plugin.Replace); err != nil {
			return err
		}
	case plugin.Modules == "":
		if _, err := os.Stat(installedModules); err == nil {
			plugin.Modules = installedModules
		}
	}
	return created(p, dir, plugin.Write(dir))
}

// created reports that the files of a plugin were written to dir, or err.
func created(p *cli.Program, dir string, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrModules) {
		return cli.Invalidf("%v", err)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "created  %s%c\nSee its README.md for the next steps.\n", dir, filepath.Separator)
	return nil
}

// sdkVersion returns the version of the SDK in a build of the agent: v0.0.0 if it is no release.
func sdkVersion(build string) string {
	if semver.IsValid(build) && semver.Build(build) == "" {
		return semver.Canonical(build)
	}
	return "v0.0.0"
}

// PluginsSDK returns 'conduit plugins sdk'.
func PluginsSDK(p *cli.Program) *ffcli.Command {
	flags := cli.NewFlags("sdk")
	return &ffcli.Command{
		Name:       "sdk",
		ShortUsage: "conduit plugins sdk DIR",
		ShortHelp:  "Write the Go packages of the plugin SDK.",
		LongHelp: `Writes the module of the SDK to DIR: its packages, a go.mod file and a go.sum file. Existing
files are not overwritten. To build a plugin against it, run

  go mod edit -replace github.com/conduit-agent/conduit=DIR

'conduit plugins init' puts the same module into the directory sdk.

Example:
  conduit plugins sdk sdk`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			dir, err := cli.Argument(flags, args, "no directory given; for example: conduit plugins sdk sdk")
			if err != nil {
				return err
			}
			if err := WriteSDK(dir); errors.Is(err, fs.ErrExist) {
				return cli.Invalidf("%v", err)
			} else if err != nil {
				return err
			}
			fmt.Fprintf(p.Stdout, "created  %s%c\n", dir, filepath.Separator)
			return nil
		},
	}
}

// checkout returns the absolute path of a checkout of the agent.
func checkout(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot find %s: %w", dir, err)
	}
	text, err := os.ReadFile(filepath.Join(path, "go.mod"))
	if err != nil {
		return "", cli.Invalidf("--replace %s is not a checkout of the agent: %v", dir, err)
	}
	if is := modfile.ModulePath(text); is != Module {
		return "", cli.Invalidf("--replace %s is not a checkout of the agent: its go.mod declares %q, not %s", dir,
			is, Module)
	}
	if _, err := os.Stat(filepath.Join(path, "plugins", "sdk")); err != nil {
		return "", cli.Invalidf("--replace %s is not a checkout of the agent: it has no plugins/sdk", dir)
	}
	return path, nil
}
