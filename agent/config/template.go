package config

import (
	"cmp"
	"fmt"
	"strings"
)

// SchemaFile is the name of the JSON Schema next to a conduit.yaml that is the template.
const SchemaFile = "conduit.schema.json"

// Template returns a conduit.yaml that has every setting, explained, at its default. Its first line makes editors
// complete and check it by SchemaFile.
func Template() []byte {
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=./" + SchemaFile + "\n" +
		"# Settings of the conduit agent: every one, at its default. Delete what you do not change.\n" +
		"# A variable or a flag overrides a line here: CONDUIT_LOG_LEVEL=debug, --log.level=debug.\n" +
		"# Relative paths begin at the directory in which the agent is started.\n")
	var open []string // groups of the last setting
	for _, s := range declared() {
		parts := strings.Split(s.Key, ".")
		within, name := parts[:len(parts)-1], parts[len(parts)-1]
		for i := shared(open, within); i < len(within); i++ {
			if i == 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s%s:\n", indent(i), within[i])
		}
		open = within
		s.writeTo(&b, indent(len(within)), name)
	}
	return []byte(b.String())
}

func (s *Setting) writeTo(b *strings.Builder, indent, name string) {
	fmt.Fprintf(b, "%s# %s\n", indent, s.Meaning())
	// an empty value would be null, which the schema does not allow
	fmt.Fprintf(b, "%s%s: %s\n", indent, name, cmp.Or(s.DefaultText(), `""`))
}

// shared counts the leading elements that a and b share.
func shared(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func indent(depth int) string { return strings.Repeat("  ", depth) }
