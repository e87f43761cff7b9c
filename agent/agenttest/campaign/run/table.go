package main

import (
	"fmt"
	"strings"
)

// The marks around the tables of campaigns in the page about tests.
const (
	beginTables = "<!-- campaigns: written by go test ./run -update in the module of campaigns -->\n"
	endTables   = "<!-- end -->\n"
)

// tables returns the tables of campaigns and of built-in connectors, as Markdown.
func tables(campaigns []Campaign, packages []Package) string {
	var b strings.Builder
	fmt.Fprint(&b, "\n| campaign | shows | gate |\n|---|---|---|\n")
	for _, c := range campaigns {
		gate := "when affected"
		switch {
		case c.Always:
			gate = "always"
		case c.FullOnly:
			gate = "no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, c.About, gate)
	}
	fmt.Fprint(&b, "\n| connector | campaigns |\n|---|---|\n")
	for _, p := range packages {
		name, ok := strings.CutPrefix(p.Dir, connectors)
		if !ok || strings.Contains(name, "/") {
			continue
		}
		var names []string
		for _, c := range campaigns {
			for _, subject := range c.Subjects {
				if above := strings.TrimSuffix(subject, "/..."); above == p.Dir {
					names = append(names, "`"+c.Name+"`")
				}
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.Join(names, ", "))
		}
	}
	return b.String() + "\n"
}

// connectors is the parent directory of the built-in connectors.
const connectors = "plugins/builtin/"
