package plugins

import (
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec/spelling"
)

// notFound says that nothing matches name, written as ref, and what there is instead.
func notFound(name pluginname.Name, ref string, installed []Installed) error {
	if len(installed) == 0 {
		return fmt.Errorf("cannot find plugin %q: there are no plugins", ref)
	}
	var all, same, names []string
	for _, p := range installed {
		full := p.FullName().String()
		all, names = append(all, full), append(names, p.Name)
		if p.Name == name.Name {
			same = append(same, full)
		}
	}
	if same != nil {
		return fmt.Errorf("cannot find plugin %q: of %s there is %s", ref, name.Name, strings.Join(same, ", "))
	}
	hint := ""
	if near := spelling.Closest(name.Name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("cannot find plugin %q: %sthere is %s", ref, hint, strings.Join(all, ", "))
}
