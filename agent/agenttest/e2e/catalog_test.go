package e2e_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/spec"
)

// catalogOf knows the plugins of an agent in dir.
func catalogOf(dir string) *catalog.Catalog {
	var c config.Config
	c.Connectors.Path = filepath.Join(dir, "connectors")
	return catalog.Offline(parts.Plugins(), c, slog.New(slog.DiscardHandler))
}

func TestCatalogKnowsExecutables(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xfile", "nothing")
	c := catalogOf(dir)
	found, refused := c.Plugins(t.Context())
	var names []string
	for _, p := range found {
		names = append(names, p.FullName().String())
	}
	var want []string
	for _, b := range builtin.All() {
		want = append(want, "builtin:"+b.Name+"@v1.0.0")
	}
	if want = append(want, "standalone:xfile@v1.0.0"); !slices.Equal(names, want) {
		t.Errorf("found %s", names)
	}
	if len(refused) != 1 || filepath.Base(refused[0].Path) != "nothing" || refused[0].Reason == "" {
		t.Errorf("refused %+v", refused)
	}
	p, err := c.Plugin(t.Context(), "xfile")
	if err != nil || p.Path != filepath.Join(dir, "connectors", "xfile") || p.Source == nil || p.Destination == nil {
		t.Errorf("described as %+v, error %v", p, err)
	}
	if _, err := c.Plugin(t.Context(), "xfil"); err == nil || !strings.Contains(err.Error(), `did you mean "xfile"?`) {
		t.Errorf("error %v", err)
	}
}

func TestCatalogChecksSettingsOfExecutables(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xfile")
	problems := catalogOf(dir).Check(t.Context(), &spec.Pipeline{
		ID: "p",
		Connectors: []spec.Connector{
			{ID: "a", Type: spec.TypeSource, Plugin: "xfile", Settings: map[string]string{"path": "in", "pth": "x"}},
			{ID: "b", Type: spec.TypeDestination, Plugin: "standalone:xfil"},
		},
		DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log"},
	})
	var got []string
	for _, p := range problems {
		got = append(got, string(p.Severity)+" "+p.Path)
	}
	if want := "error /connectors/0/settings/pth, error /connectors/1/plugin"; strings.Join(got, ", ") != want {
		t.Errorf("problems %s, want %s: %+v", strings.Join(got, ", "), want, problems)
	}
}

func TestSecretsOfTheAgentStayWithIt(t *testing.T) {
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "xfile")
	for name, value := range map[string]string{
		"CONDUIT_API_TOKEN": "secret", "CREDENTIALS_DIRECTORY": "/secret", "NOTIFY_SOCKET": "/socket",
		"AWS_REGION": "here",
	} {
		t.Setenv(name, value)
	}
	path := filepath.Join(dir, "connectors", "xfile")
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	script = []byte(strings.Replace(string(script), "\n", "\nenv > "+dir+"/env\n", 1))
	if err := os.WriteFile(path, script, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := catalogOf(dir).Plugin(t.Context(), "xfile"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	if env := string(b); strings.Contains(env, "secret") || strings.Contains(env, "NOTIFY_SOCKET") ||
		!strings.Contains(env, "AWS_REGION=here\n") {
		t.Errorf("the plugin inherits:\n%s", env)
	}
}
