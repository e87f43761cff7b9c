package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/spec/texts"
)

// PluginsInit returns 'conduit plugins init'.
func PluginsInit(p *cli.Program) *ffcli.Command {
	flags := cli.NewFlags("init")
	dir := flags.String("path", "", "`DIR` to write to (default the name)")
	processor := flags.Bool("processor", false, "write a processor, a WebAssembly module, instead of a connector")
	replace := flags.String("replace", "", "build against the checkout of the agent in `DIR`, not a copy of the SDK")
	modules := flags.String("modules", "",
		"archive `FILE` of a release with all modules, for builds without a network (default "+installedModules+
			" if it is there)")
	return &ffcli.Command{
		Name:       "init",
		ShortUsage: "conduit plugins init NAME [flags]",
		ShortHelp:  "Write a connector or a processor to start from.",
		LongHelp: `Writes the folder of a Go program that is a connector: a source, a destination, a test of
both, and a README that says how to build and run it; with --processor, that of a processor,
which is built as a WebAssembly module. It overwrites nothing. The folder has a copy of the SDK,
so that no checkout is needed. With --modules nothing is downloaded either: the folder gets all
other modules, too, from the archive that packages install and releases have.

Example:
  conduit plugins init mine
  conduit plugins init --processor mine`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			name, err := cli.Argument(flags, args, "which name? For example: conduit plugins init mine")
			if err != nil {
				return err
			}
			plugin := Plugin{Kind: ConnectorPlugin, Name: name, Replace: *replace, Modules: *modules}
			if *processor {
				plugin.Kind = ProcessorPlugin
			}
			return initPlugin(p, plugin, cmp.Or(*dir, name))
		},
	}
}

// pluginName matches names that are valid for a plugin, a Go module and a pipeline.
var pluginName = texts.Regexp(`^[a-z][a-z0-9-]{0,59}$`)

// installedModules is the path at which packages install the archive of modules.
const installedModules = "/usr/share/conduit/modules.tar.zst"

func initPlugin(p *cli.Program, plugin Plugin, dir string) (err error) {
	if !pluginName().MatchString(plugin.Name) {
		return cli.Invalidf("not a name for a %s: %q; use small letters, digits and '-', at most 60", plugin.Kind,
			plugin.Name)
	}
	plugin.Version = sdkVersion(p.Version)
	switch {
	case plugin.Replace != "" && plugin.Modules != "":
		return cli.Invalidf("--modules goes with the copy of the SDK: leave out --replace, or run 'go mod vendor' in " +
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
	if err := plugin.Write(dir); errors.Is(err, fs.ErrExist) || errors.Is(err, ErrModules) {
		return cli.Invalidf("%v", err)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "created  %s%c\nIts README.md says how to go on.\n", dir, filepath.Separator)
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
		ShortHelp:  "Write the Go packages that plugins are made with.",
		LongHelp: `Writes the module of the SDK to DIR: its packages, a go.mod file and a go.sum file. It overwrites
nothing. A plugin is built against it after

  go mod edit -replace github.com/conduit-agent/conduit=DIR

The folder that 'conduit plugins init' writes has it in the directory sdk.

Example:
  conduit plugins sdk sdk`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			dir, err := cli.Argument(flags, args, "to which directory? For example: conduit plugins sdk sdk")
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
		return "", cli.Invalidf("--replace %s is no checkout of the agent: %v", dir, err)
	}
	if is := modfile.ModulePath(text); is != Module {
		return "", cli.Invalidf("--replace %s is no checkout of the agent: its go.mod is that of %q, not of %s", dir,
			is, Module)
	}
	if _, err := os.Stat(filepath.Join(path, "plugins", "sdk")); err != nil {
		return "", cli.Invalidf("--replace %s is no checkout of the agent: it has no plugins/sdk", dir)
	}
	return path, nil
}
