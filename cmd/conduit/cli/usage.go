package cli

import (
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
)

// Usage is the text that --help prints.
func Usage(c *ffcli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", c.ShortHelp, c.ShortUsage)
	if c.LongHelp != "" {
		fmt.Fprintf(&b, "\n%s\n", c.LongHelp)
	}
	if len(c.Subcommands) > 0 {
		b.WriteString("\nCommands:\n")
		tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
		for _, s := range c.Subcommands {
			fmt.Fprintf(tw, "  %s\t%s\n", s.Name, s.ShortHelp)
		}
		tw.Flush()
		fmt.Fprintf(&b, "\nUse '%s COMMAND --help' for more information about a command.\n", Path(c))
	}
	writeFlags(&b, c.FlagSet)
	return b.String()
}

// writeFlags writes the flags of the command, and then the flags that many commands share.
func writeFlags(b *strings.Builder, fs *flag.FlagSet) {
	own, shared := Flags(fs)
	writeHeaded(b, "\nFlags:\n", own)
	if len(own) == 0 {
		writeHeaded(b, "\nFlags:\n", shared)
		return
	}
	writeHeaded(b, "\nFlags of many commands:\n", shared)
}

func writeHeaded(b *strings.Builder, heading string, flags []Flag) {
	for _, f := range flags {
		fmt.Fprintf(b, "%s  %s\n        %s\n", heading, f.Synopsis(), f.Text)
		heading = ""
	}
}

// Flag describes a flag of a command.
type Flag struct {
	Name     string // without dashes
	Argument string // "" for a flag without a value
	Text     string
}

// Synopsis returns the flag in the form of the command line.
func (f Flag) Synopsis() string {
	dashes := "--"
	if len(f.Name) == 1 {
		dashes = "-"
	}
	return strings.TrimSpace(dashes + f.Name + " " + f.Argument)
}

// Flags returns the flags that only this command has, or few do, and the flags that every command has for its settings
// and the agent.
func Flags(fs *flag.FlagSet) (own, shared []Flag) {
	fs.VisitAll(func(f *flag.Flag) {
		if f.Usage == hidden {
			return
		}
		one := describe(f)
		if f.Name == config.PathKey || strings.HasPrefix(f.Name, "api.client.") || f.Name == "api.address" {
			shared = append(shared, one)
		} else {
			own = append(own, one)
		}
	})
	return own, shared
}

func describe(f *flag.Flag) Flag {
	arg, text := flag.UnquoteUsage(f)
	if s, ok := f.Value.(*settingFlag); ok && !s.IsBoolFlag() {
		arg = s.Type()
	}
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
		text += " (default " + f.DefValue + ")"
	}
	return Flag{f.Name, arg, text}
}
