//go:build !minimal

package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/plugins/sdk/starter"
)

// initCommands returns 'conduit plugins init'.
func initCommands(p *cli.Program) []*ffcli.Command {
	flags := cli.NewFlags("init")
	dir := flags.String("path", "", "`DIR` to write to (default the name)")
	processor := flags.Bool("processor", false, "write a processor, a WebAssembly module, instead of a connector")
	replace := flags.String("replace", "", "build against the checkout of the agent in `DIR`")
	return []*ffcli.Command{{
		Name:       "init",
		ShortUsage: "conduit plugins init NAME [flags]",
		ShortHelp:  "Write a connector or a processor to start from.",
		LongHelp: `Writes the folder of a Go program that is a connector: a source, a destination, a test of
both, and a README that says how to build and run it; with --processor, that of a processor,
which is built as a WebAssembly module. It overwrites nothing.

Example:
  conduit plugins init mine
  conduit plugins init --processor mine`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			name, err := cli.Argument(flags, args, "which name? For example: conduit plugins init mine")
			if err != nil {
				return err
			}
			kind := starter.Connector
			if *processor {
				kind = starter.Processor
			}
			return initPlugin(p, kind, name, cmp.Or(*dir, name), *replace)
		},
	}}
}

// pluginName is what may name a plugin, a Go module and a pipeline.
var pluginName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,59}$`)

func initPlugin(p *cli.Program, kind starter.Kind, name, dir, replace string) (err error) {
	if !pluginName.MatchString(name) {
		return cli.Invalidf("not a name for a %s: %q; use small letters, digits and '-', at most 60", kind, name)
	}
	c := starter.Plugin{Kind: kind, Name: name, Version: p.Version}
	released := semver.IsValid(c.Version) && semver.Build(c.Version) == ""
	if !released {
		c.Version = "v0.0.0"
	}
	if replace != "" {
		if c.Replace, err = checkout(replace); err != nil {
			return err
		}
	}
	if err := c.Write(dir); errors.Is(err, fs.ErrExist) {
		return cli.Invalidf("%v", err)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "created  %s%c\nIts README.md says how to go on.\n", dir, filepath.Separator)
	if !released && replace == "" {
		fmt.Fprintln(p.Stdout, "This conduit is no release: name a checkout of it in go.mod, or write the folder with --replace.")
	}
	return nil
}

// module is the path of the agent's module.
const module = "github.com/conduit-agent/conduit"

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
	if is := modfile.ModulePath(text); is != module {
		return "", cli.Invalidf("--replace %s is no checkout of the agent: its go.mod is that of %q, not of %s", dir, is, module)
	}
	return path, nil
}
