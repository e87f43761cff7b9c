package plugins

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec/texts"
)

// notFound returns the error that nothing matches name, written as ref. The error lists the available plugins.
func notFound(name pluginname.Name, ref string, installed []Installed) error {
	if len(installed) == 0 {
		return fmt.Errorf("cannot find plugin %q: there are no plugins", ref)
	}
	var same, names []string
	for _, p := range installed {
		names = append(names, p.Name)
		if p.Name == name.Name {
			same = append(same, p.FullName().String())
		}
	}
	if same != nil {
		return fmt.Errorf("cannot find plugin %q: of %s there is %s", ref, name.Name, strings.Join(same, ", "))
	}
	hint := ""
	if near := texts.Closest(name.Name, names); near != "" {
		i := slices.IndexFunc(installed, func(p Installed) bool { return p.Name == near })
		if strings.Contains(ref, ":") {
			near = string(installed[i].Kind) + ":" + near
		}
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("cannot find plugin %q: %s'conduit plugins ls' lists the %d there are", ref, hint, len(installed))
}
