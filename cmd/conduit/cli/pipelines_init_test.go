package cli

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	plugincatalog "github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/plugins/builtin"
)

// A file for any source, or destination, lacks only the settings that it marks as missing.
func TestPipelinesInitOfEveryConnector(t *testing.T) {
	conduit := func(args ...string) (code int, out string) {
		var text bytes.Buffer
		p := &Program{Stdout: &text, Stderr: &text,
			Environ: []string{"CONDUIT_PIPELINES_PATH=.", "CONDUIT_CONNECTORS_EXEC_ENABLED=true"},
			Catalog: func(c config.Config, log *slog.Logger) Catalog {
				return plugincatalog.Offline(parts.Plugins(), c, log)
			}}
		code = Run(t.Context(), p, args)
		return code, text.String()
	}
	for _, c := range builtin.All() {
		for side, has := range map[string]bool{"source": c.NewSource != nil, "destination": c.NewDestination != nil} {
			if !has {
				continue
			}
			t.Chdir(t.TempDir())
			code, out := conduit("pipelines", "init", "p", "--"+side, c.Name)
			missing := regexp.MustCompile(`[^ ]+ of `+c.Name+"-"+side).FindAllString(out, -1)
			if code != 0 {
				t.Errorf("%s %s: exit code %d: %s", side, c.Name, code, out)
			}
			code, out = conduit("pipelines", "validate")
			if (code == 0) != (len(missing) == 0) || strings.Count(out, ": error: ") != len(missing) ||
				!strings.Contains(out, ", 0 warnings\n") {
				t.Errorf("%s %s: %v is missing, and validate says %s", side, c.Name, missing, out)
			}
		}
	}
}
