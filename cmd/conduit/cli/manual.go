package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// Name returns the file name of the page of the command that words name: conduit-pipelines-ls.1.
func Name(words []string) string {
	return strings.Join(append([]string{"conduit"}, words...), "-") + ".1"
}

// Pages returns the manual pages of c and all commands below it, in roff, by file name. They depend only on the
// commands and the version.
func Pages(c *ffcli.Command, version string) map[string][]byte {
	pages := map[string][]byte{}
	walk(c, nil, func(c *ffcli.Command, words []string) { pages[Name(words)] = page(c, words, version) })
	return pages
}

// walk calls f for c and every command below it. words are the names of the commands below the first.
func walk(c *ffcli.Command, words []string, f func(c *ffcli.Command, words []string)) {
	f(c, words)
	for _, below := range c.Subcommands {
		walk(below, append(words[:len(words):len(words)], below.Name), f)
	}
}

func page(c *ffcli.Command, words []string, version string) []byte {
	var b bytes.Buffer
	name := strings.TrimSuffix(Name(words), ".1")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"conduit %s\" \"conduit\"\n", strings.ToUpper(name), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(strings.TrimSuffix(c.ShortHelp, ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.ShortUsage))
	if c.LongHelp != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(c.LongHelp))
	}
	own, shared := Flags(c.FlagSet)
	writeManualFlags(&b, "OPTIONS", own)
	writeManualFlags(&b, "COMMON OPTIONS", shared)
	if len(c.Subcommands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, below := range c.Subcommands {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(name+"-"+below.Name), roff(below.ShortHelp))
		}
	}
	b.WriteString(".SH EXIT STATUS\n0 success, 1 failure at run time, 2 error in arguments or files, 3 " +
		"problem of the host.\n")
	if len(words) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(strings.TrimSuffix(Name(words[:len(words)-1]), ".1")))
	}
	return b.Bytes()
}

func writeManualFlags(b *bytes.Buffer, heading string, flags []Flag) {
	for i, f := range flags {
		if i == 0 {
			fmt.Fprintf(b, ".SH %s\n", heading)
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(f.Synopsis()), roff(f.Text))
	}
}

// roff escapes text for roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
