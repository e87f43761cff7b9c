package plugins

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec/texts"
)

// notFound returns the error that no plugin matches name, written as ref. The error lists the available plugins, and
// ends with more.
func notFound(name pluginname.Name, ref string, installed []Installed, more string) error {
	if more != "" {
		more = "; " + more
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
