package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins"
)

// pluginsCommand returns 'conduit plugins' and the commands below it.
func pluginsCommand(p *Program) *ffcli.Command {
	return p.Group(&ffcli.Command{
		Name:       "plugins",
		ShortUsage: "conduit plugins COMMAND [flags]",
		ShortHelp:  "List connectors and processors, and create new ones.",
		LongHelp: `Plugins are built in or files: executables in the directory connectors.path are connectors, and
WebAssembly modules in processors.path are processors. These commands need no running agent: they
query the files themselves.

Examples:
  conduit plugins describe file
  conduit plugins describe field.mask`,
		Subcommands: append([]*ffcli.Command{pluginsListCommand(p), pluginsDescribeCommand(p)},
			p.optional(p.Parts.PluginCommands)...),
	})
}

func pluginsListCommand(p *Program) *ffcli.Command {
	flags := NewFlags("ls")
	at := SettingFlags(flags, "connectors.path", "processors.path")
	asJSON := flags.Bool("json", false, "print JSON")
	processors := flags.Bool("processors", false, "list the processors")
	return &ffcli.Command{
		Name:       "ls",
		ShortUsage: "conduit plugins ls [flags]",
		ShortHelp:  "List the plugins.",
		LongHelp: `Lists the connectors, or with --processors the processors, followed by unused files in
connectors.path and processors.path with the reason.

Examples:
  conduit plugins ls --json
  conduit plugins ls --processors`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			if _, err := Positional(flags, args, 0); err != nil {
				return err
			}
			plugins, err := pluginCatalog(p, at)
			if err != nil {
				return err
			}
			found, refused := plugins.Plugins(ctx)
			if *processors {
				return listProcessors(p, plugins.KnownProcessors(ctx), refused, *asJSON)
			}
			if *asJSON {
				return p.WriteJSON(pluginListJSON(found, refused))
			}
			return writePlugins(p, found, refused)
		},
	}
}

func pluginsDescribeCommand(p *Program) *ffcli.Command {
	flags := NewFlags("describe")
	at := SettingFlags(flags, "connectors.path", "processors.path")
	asJSON := flags.Bool("json", false, "print JSON")
	return &ffcli.Command{
		Name:       "describe",
		ShortUsage: "conduit plugins describe NAME [flags]",
		ShortHelp:  "Explain a plugin and all its settings.",
		LongHelp: `NAME is the name of a connector or processor as in a pipeline file: file, builtin:file,
standalone:kafka@v0.9.1, field.mask. Built-in processors have an example. The name of a script
(FILE.js) stands for custom.javascript, which runs scripts; modules define their own names.

Examples:
  conduit plugins describe generator
  conduit plugins describe expr.map`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			name, err := Argument(flags, args, "no plugin given; 'conduit plugins ls' lists them")
			if err != nil {
				return err
			}
			plugins, err := pluginCatalog(p, at)
			if err != nil {
				return err
			}
			return describeNamedPlugin(ctx, p, plugins, name, *asJSON)
		},
	}
}

func pluginCatalog(p *Program, at *Settings) (Catalog, error) {
	c, err := at.Load(p)
	if err != nil {
		return nil, err
	}
	return p.Catalog(c, slog.New(slog.DiscardHandler)), nil
}

func writePlugins(p *Program, all []plugins.Installed, refused []plugins.Problem) error {
	tw := tabwriter.NewWriter(p.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "NAME\tVERSION\tKIND\tTYPES\tSUMMARY")
	for _, plugin := range all {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", plugin.Name, plugin.Version, plugin.Kind,
			strings.Join(pluginTypes(plugin), ", "), terminal.OneLine(plugin.Summary))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	writeRejected(p, refused)
	return nil
}

func writeRejected(p *Program, refused []plugins.Problem) {
	if len(refused) > 0 {
		fmt.Fprintln(p.Stdout, "\nNot used:")
	}
	for _, r := range refused {
		fmt.Fprintf(p.Stdout, "  %s: %s\n", r.Path, terminal.OneLine(r.Reason))
	}
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

func describePlugin(p *Program, plugin plugins.Installed) error {
	writeAbout(p, plugin.FullName(), plugin.Summary, plugin.Description, plugin.Author)
	if plugin.Path != "" {
		fmt.Fprintf(p.Stdout, "File:   %s\n", plugin.Path)
	}
	writeParameters(p, "Settings as a source", plugin.Source)
	writeParameters(p, "Settings as a destination", plugin.Destination)
	return nil
}

// writeAbout writes a plugin's description of itself.
func writeAbout(p *Program, name fmt.Stringer, summary, description, author string) {
	fmt.Fprintln(p.Stdout, name)
	for _, text := range []string{summary, description} {
		if text = strings.TrimSpace(terminal.Clean(text)); text != "" {
			fmt.Fprintf(p.Stdout, "%s\n", text)
		}
	}
	fmt.Fprintf(p.Stdout, "\nAuthor: %s\n", cmp.Or(terminal.OneLine(author), "unknown"))
}
