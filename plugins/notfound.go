package plugins

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec/texts"
)

// notFound returns the error that no plugin matches name, written as ref. The error lists the available plugins, says
// why a file with this name is not used, and ends with more.
func notFound(name pluginname.Name, ref string, installed []Installed, unused []Problem, more string) error {
	if more != "" {
		more = "; " + more
	}
	for _, p := range unused {
		if strings.Contains(filepath.Base(p.Path), name.Name) {
			more = fmt.Sprintf("; %s is not used: %s", p.Path, p.Reason) + more
		}
	}
	if len(installed) == 0 {
		return fmt.Errorf("cannot find plugin %q: there are no plugins%s", ref, more)
	}
	var same, names []string
	for _, p := range installed {
		names = append(names, p.Name)
		if p.Name == name.Name {
			same = append(same, p.FullName().String())
		}
	}
	if same != nil {
		return fmt.Errorf("cannot find plugin %q: installed: %s%s", ref, strings.Join(same, ", "), more)
	}
	hint := ""
	if near := texts.Closest(name.Name, names); near != "" {
		i := slices.IndexFunc(installed, func(p Installed) bool { return p.Name == near })
		if strings.Contains(ref, ":") {
			near = string(installed[i].Kind) + ":" + near
		}
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("cannot find plugin %q: %s'conduit plugins ls' lists the %d there are%s", ref, hint,
		len(installed), more)
}
