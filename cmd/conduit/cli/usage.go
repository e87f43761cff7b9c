package cli

import (
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// usage is what --help prints.
func usage(c *ffcli.Command) string {
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
		fmt.Fprintf(&b, "\n'%s COMMAND --help' says more about one.\n", path(c))
	}
	writeFlags(&b, c.FlagSet)
	return b.String()
}

func writeFlags(b *strings.Builder, fs *flag.FlagSet) {
	heading := "\nFlags:\n"
	fs.VisitAll(func(f *flag.Flag) {
		if f.Usage == hidden {
			return
		}
		arg, text := flag.UnquoteUsage(f)
		if s, ok := f.Value.(*settingFlag); ok && !s.IsBoolFlag() {
			arg = s.Type()
		}
		if arg != "" {
			arg = " " + arg
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			text += " (default " + f.DefValue + ")"
		}
		dashes := "--"
		if len(f.Name) == 1 {
			dashes = "-"
		}
		fmt.Fprintf(b, "%s  %s%s%s\n        %s\n", heading, dashes, f.Name, arg, text)
		heading = ""
	})
}
