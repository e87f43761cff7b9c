package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/plugins"
)

func pluginsCommand(p *program) *ffcli.Command {
	return p.group(&ffcli.Command{
		Name:       "plugins",
		ShortUsage: "conduit plugins COMMAND [flags]",
		ShortHelp:  "Show the connector plugins there are, and write new ones.",
		LongHelp: `Plugins are built in, or executables in the directory that the setting connectors.path
names. No agent needs to run: every executable is asked what it is.

Example:
  conduit plugins describe file`,
		Subcommands: []*ffcli.Command{pluginsListCommand(p), pluginsDescribeCommand(p), pluginsInitCommand(p)},
	})
}

func pluginsListCommand(p *program) *ffcli.Command {
	flags := newFlags("ls")
	asJSON := flags.Bool("json", false, "print JSON")
	return &ffcli.Command{
		Name:       "ls",
		ShortUsage: "conduit plugins ls [flags]",
		ShortHelp:  "List the plugins.",
		LongHelp: `Lists the plugins, and behind them the files in connectors.path that are not used, each
with the reason.

Example:
  conduit plugins ls --json`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			if _, err := positional(flags, args, 0); err != nil {
				return err
			}
			plugins, err := p.pluginCatalog()
			if err != nil {
				return err
			}
			found, refused := plugins.Plugins(ctx)
			if *asJSON {
				return p.writeJSON(pluginListJSON(found, refused))
			}
			return p.writePlugins(found, refused)
		},
	}
}

func pluginsDescribeCommand(p *program) *ffcli.Command {
	flags := newFlags("describe")
	asJSON := flags.Bool("json", false, "print JSON")
	return &ffcli.Command{
		Name:       "describe",
		ShortUsage: "conduit plugins describe NAME [flags]",
		ShortHelp:  "Explain a plugin and all its settings.",
		LongHelp: `NAME is written as in a pipeline file: file, builtin:file, standalone:kafka@v0.9.1.

Example:
  conduit plugins describe generator`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			words, err := positional(flags, args, 1)
			if err != nil {
				return err
			}
			if len(words) == 0 {
				return invalidf("which plugin? 'conduit plugins ls' lists them")
			}
			plugins, err := p.pluginCatalog()
			if err != nil {
				return err
			}
			plugin, err := plugins.Plugin(ctx, words[0])
			if err != nil {
				return invalidf("%v", err)
			}
			if *asJSON {
				return p.writeJSON(pluginDescriptionJSON(plugin))
			}
			return describePlugin(p, plugin)
		},
	}
}

func (p *program) pluginCatalog() (catalog, error) {
	c, err := (&settings{}).load(p)
	if err != nil {
		return nil, err
	}
	return p.catalog(c, slog.New(slog.DiscardHandler)), nil
}

func (p *program) writePlugins(all []plugins.Installed, refused []plugins.Problem) error {
	tw := tabwriter.NewWriter(p.stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "NAME\tVERSION\tKIND\tTYPES\tSUMMARY")
	for _, plugin := range all {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", plugin.Name, plugin.Version, plugin.Kind, strings.Join(pluginTypes(plugin), ", "), oneLine(plugin.Summary))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(refused) > 0 {
		fmt.Fprintln(p.stdout, "\nNot used:")
	}
	for _, r := range refused {
		fmt.Fprintf(p.stdout, "  %s: %s\n", r.Path, oneLine(r.Reason))
	}
	return nil
}

func pluginTypes(p plugins.Installed) []string {
	var types []string
	if p.Source != nil {
		types = append(types, "source")
	}
	if p.Destination != nil {
		types = append(types, "destination")
	}
	return types
}

// oneLine keeps what a plugin says from breaking a list.
func oneLine(s string) string { return strings.Join(strings.Fields(printableOnly(s)), " ") }

// printableOnly replaces what could steer a terminal.
func printableOnly(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			return r
		}
		return ' '
	}, s)
}

func describePlugin(p *program, plugin plugins.Installed) error {
	fmt.Fprintln(p.stdout, plugin.FullName())
	for _, text := range []string{plugin.Summary, plugin.Description} {
		if text = strings.TrimSpace(printableOnly(text)); text != "" {
			fmt.Fprintf(p.stdout, "%s\n", text)
		}
	}
	fmt.Fprintf(p.stdout, "\nAuthor: %s\n", cmp.Or(oneLine(plugin.Author), "unknown"))
	if plugin.Path != "" {
		fmt.Fprintf(p.stdout, "File:   %s\n", plugin.Path)
	}
	writeParameters(p, "source", plugin.Source)
	writeParameters(p, "destination", plugin.Destination)
	return nil
}
