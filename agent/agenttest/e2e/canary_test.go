package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// tattler is a source and a destination that quotes its settings wherever it can.
type tattler struct {
	sdk.SourceBase
	settings map[string]string
}

// tattlingDestination is a tattler that writes.
type tattlingDestination struct {
	sdk.DestinationBase
	tattler
}

func serveTattler(name string) sdk.Connector {
	return sdk.Connector{Name: name, Version: "v1.0.0", NewSource: func() sdk.Source { return &tattler{} },
		NewDestination: func() sdk.Destination { return &tattlingDestination{} }}
}

// quote quotes the settings as connectors do: printed, as JSON, escaped.
func (c *tattler) quote(what string) error {
	var all []string
	for name, value := range c.settings {
		text, _ := json.Marshal(map[string]string{name: value})
		all = append(all, fmt.Sprintf("%s=%s %q %s %s", name, value, value, text, url.QueryEscape(value)))
	}
	return errors.New("cannot " + what + " with " + strings.Join(all, ", ") + " in words: " + strings.Join(all, " "))
}

func (*tattler) Parameters() sdk.Parameters {
	all := sdk.Parameters{"fail": {Type: sdk.TypeString}}
	for name := range planted {
		all[name] = sdk.Parameter{Type: sdk.TypeString}
	}
	return all
}

func (c *tattler) Configure(_ context.Context, settings map[string]string) error {
	c.settings = settings
	if settings["fail"] == "configure" {
		return c.quote("configure")
	}
	return nil
}

func (c *tattler) tattle(ctx context.Context) {
	said := c.quote("connect").Error()
	sdk.Logger(ctx).Error(said, "settings", said, slog.Group("group", "settings", said), "map", c.settings, "err",
		errors.New(said))
	fmt.Fprintln(os.Stderr, said)
}

func (c *tattler) Open(ctx context.Context, _ record.Position) error {
	c.tattle(ctx)
	if c.settings["fail"] == "open" {
		return c.quote("open")
	}
	return nil
}

func (c *tattler) Read(context.Context) ([]record.Record, error) { return nil, c.quote("read") }

func (c *tattler) Teardown(context.Context) error { return c.quote("tear down") }

func (d *tattlingDestination) Parameters() sdk.Parameters { return d.tattler.Parameters() }

func (d *tattlingDestination) Configure(ctx context.Context, settings map[string]string) error {
	return d.tattler.Configure(ctx, settings)
}

func (d *tattlingDestination) Open(ctx context.Context) error { return d.tattler.Open(ctx, nil) }

func (d *tattlingDestination) Write(context.Context, []record.Record) (int, error) {
	return 0, d.quote("write")
}

func (d *tattlingDestination) Teardown(context.Context) error { return d.quote("tear down") }

func (d *tattlingDestination) LifecycleOnCreated(context.Context, map[string]string) error {
	return nil
}

func (d *tattlingDestination) LifecycleOnUpdated(context.Context, map[string]string, map[string]string) error {
	return nil
}

func (d *tattlingDestination) LifecycleOnDeleted(context.Context, map[string]string) error {
	return d.quote("delete")
}

// planted are secret settings, each with a canary in it: %s.
var planted = map[string]string{
	"password": "%s", "db.passwd": "%s", "apiKey": "%s", "api_token": "%s", "secret": "a%s<b>&'c'", "github.pat": "%s",
	"pat":     "%s",
	"webhook": "%s", "webhook_url": "https://hooks.example.com/%s", "accountkey": "%s", "psk": "%s", "jwt": "%s",
	"auth.bearer": "%s",
	"auth.basic":  "%s", "auth": "%s", "cred": "%s", "cookie": "sid=%s", "session": "%s", "session.id": "%s",
	"hmac": "%s", "signature": "%s",
	"otp": "%s", "pin": "%s", "seed": "%s", "mnemonic": "one two %s", "keytab": "%s", "userinfo": "u:%s",
	"client-key-data": "%s",
	"passphrase":      "%s", "ssl.key": "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----",
	"azure": "BlobEndpoint=https://x;SharedAccessSignature=sv=1&sig=%s", "sentry": "https://%s@sentry.example.com/1",
	"odbc": "host=h pw='%s'",
	"url":  "postgres://u:%s@127.0.0.1/db", "dsn": "u:%s@tcp(127.0.0.1:3306)/db", "header": "Bearer %s",
	"headers": "Authorization: Basic %s",
	"query":   "https://example.com/?sig=%s", "jdbc": "jdbc:sqlserver://h;user=u;pwd=%s",
	"functions": "https://f.example.com/?code=%s",
}

// garden plants a canary in each setting, every fourth one behind a reference.
type garden struct {
	t        *testing.T
	canaries []string
	referred []string // canaries behind references
}

func (g *garden) settings(indent, fail string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sfail: %q\n", indent, fail)
	for name, form := range planted {
		canary := fmt.Sprintf("CanarY%04dz9", len(g.canaries))
		g.canaries = append(g.canaries, canary)
		value := strings.ReplaceAll(form, "%s", canary)
		if len(g.canaries)%4 == 0 {
			variable := fmt.Sprintf("PLANTED_%d", len(g.canaries))
			_ = os.Setenv(variable, value) // it stays: a test that sets variables cannot run in parallel with others
			g.referred = append(g.referred, canary)
			value = "${" + variable + "}"
		}
		text, _ := json.Marshal(value)
		fmt.Fprintf(&b, "%s%q: %s\n", indent, name, text)
	}
	return b.String()
}

// found returns the canaries that text contains, plain or in base64.
func (g *garden) found(text string) (all []string) {
	for _, canary := range g.canaries {
		if strings.Contains(text, canary) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary))) {
			all = append(all, canary)
		}
	}
	return all
}

// pipeline is a pipeline of a source and a destination with planted settings.
func (g *garden) pipeline(dir, id, source, from, destination, to, dlq string) string {
	end := func(name, typ, plugin, fail string) string {
		switch plugin {
		case "builtin:generator":
			return fmt.Sprintf("  - {id: %s, type: %s, plugin: %q, "+
				"settings: {rate: 100, recordCount: 5, format.type: raw, format.options.n: int}}\n", name, typ, plugin)
		case "builtin:file":
			return fmt.Sprintf("  - {id: %s, type: %s, plugin: %q, settings: {path: %q}}\n", name, typ, plugin,
				dir+"/"+id+".out")
		}
		return fmt.Sprintf("  - id: %s\n    type: %s\n    plugin: %q\n    settings:\n%s", name, typ, plugin,
			g.settings("      ", fail))
	}
	text := "version: \"2.2\"\npipelines:\n- id: " + id + "\n  status: running\n  connectors:\n" +
		end("src", "source", source, from) + end("dst", "destination", destination, to)
	if dlq != "" {
		text += fmt.Sprintf("  dead-letter-queue:\n    plugin: %q\n    window-size: 0\n    settings:\n%s", dlq,
			g.settings("      ", ""))
	} else {
		text += fmt.Sprintf("  dead-letter-queue: {plugin: 'builtin:file', window-size: 0, settings: {path: %q}}\n",
			dir+"/"+id+".dlq")
	}
	return text
}

// Secrets appear nowhere when a connector that quotes its settings fails, whichever call fails: not in answers to the
// read token or the admin token, in no file and in no line of the log.
func TestPlantedSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "tattler")
	admin, reader := agenttest.SecretFile(t, "admin-token-0123456789"), agenttest.SecretFile(t, "read-token-0123456789")
	w := startWeb(t, dir, func(c *config.Config) {
		c.API.Auth.AdminTokenFile, c.API.Auth.ReadTokenFile = admin, reader
		c.Pipelines.ErrorRecovery.MaxRetries = 0
	})
	w.API = &client.Client{URL: w.API.URL, Token: "admin-token-0123456789"}
	g := &garden{t: t}
	g.plant(w)
	for token, all := range map[string]string{"admin": "admin-token-0123456789", "read": "read-token-0123456789"} {
		for _, path := range append(pathsOf(w, all), "/metrics", "/v1/events", "/v1/pipelines/read/status") {
			got := w.Do("GET", path, "", "Authorization", "Bearer "+all)
			if found := g.found(got.Body); len(found) > 0 {
				t.Errorf("%s with the %s token shows %d secrets, such as %s: %.300s", path, token, len(found), found[0],
					around(got.Body, found[0]))
			}
		}
	}
	if found := g.found(w.Summary(t.Context())); len(found) > 0 {
		t.Errorf("the status for systemd shows %s", found)
	}
	w.Stop()
	if found := g.found(w.Log()); len(found) > 0 {
		t.Errorf("the log shows %d secrets, such as %s", len(found), around(w.Log(), found[0]))
	}
	g.checkFiles(dir)
}

// plant saves pipelines that fail in every call of a connector that quotes its settings, and returns when all have
// failed.
func (g *garden) plant(w *web) {
	const generator, file, tattling = "builtin:generator", "builtin:file", "standalone:tattler"
	for id, c := range map[string][5]string{
		"configure-s": {tattling, "configure", file, ""}, "configure-d": {generator, "", tattling, "configure"},
		"open-s": {tattling, "open", file, ""}, "open-d": {generator, "", tattling, "open"},
		"read":  {tattling, "read", file, ""},
		"write": {generator, "", tattling, "write"}, "dlq": {generator, "", tattling, "write", tattling},
	} {
		w.Save(id+".yaml", g.pipeline(w.Dir, id, c[0], c[1], c[2], c[3], c[4]))
	}
	processed := g.pipeline(w.Dir, "processed", generator, "", file, "", "")
	w.Save("processed.yaml", processed+"  processors:\n  - id: js\n    plugin: custom.javascript\n    settings:\n    "+
		"  script: \"function process(r) { throw new Error('no') }\"\n  - id: hook\n    plugin: webhook.http\n    "+
		"settings:\n      request.url: https://hooks.example.com/x\n"+g.settings("      ", ""))
	for _, id := range []string{"configure-s", "configure-d", "open-s", "open-d", "read", "dlq"} {
		w.Wait("the failure of "+id, func() bool {
			a := w.State(id).LastAttempt
			return a != nil && a.Error != "" || w.State(id).Phase == spec.PhaseDegraded
		})
	}
	w.Wait("a dead letter", func() bool {
		b, _ := os.ReadFile(w.Path("write.dlq"))
		return strings.Contains(string(b), "cannot write with")
	})
}

// checkFiles checks the files of the agent in its directory: only the store contains declarations, with literal
// secrets.
func (g *garden) checkFiles(dir string) {
	files, _ := filepath.Glob(dir + "/*.dlq")
	reports, _ := filepath.Glob(dir + "/conduit.db.status/*")
	if len(reports) == 0 || len(files) == 0 {
		g.t.Fatal("there are no status files or no dead letters")
	}
	deadFiles, _ := filepath.Glob(dir + "/conduit.db.dead-letters*")
	if len(deadFiles) == 0 {
		g.t.Fatal("there is no dead-letter store")
	}
	stored, _ := filepath.Glob(dir + "/conduit.db*")
	for _, path := range stored {
		b, err := os.ReadFile(path)
		if err == nil && len((&garden{canaries: g.referred}).found(string(b))) > 0 {
			g.t.Errorf("%s holds values of references", path)
		}
	}
	for _, path := range slices.Concat(files, reports, deadFiles) {
		b, err := os.ReadFile(path)
		if err != nil {
			g.t.Fatal(err)
		}
		if found := g.found(string(b)); len(found) > 0 {
			g.t.Errorf("%s shows %d secrets, such as %s", path, len(found), around(string(b), found[0]))
		}
	}
}

// around returns the part of text around what.
func around(text, what string) string {
	i := strings.Index(text, what)
	return text[max(0, i-120):min(len(text), max(0, i)+120)]
}

// pathsOf returns the GET paths of the OpenAPI document whose answers end, for the existing pipelines and connectors.
func pathsOf(w *web, token string) (paths []string) {
	var document struct {
		Paths map[string]map[string]struct {
			Streaming bool `json:"x-streaming"`
		}
	}
	get := func(path string, out any) {
		got := w.Do("GET", path, "", "Authorization", "Bearer "+token)
		if got.Status != http.StatusOK {
			w.T.Fatalf("%s: %d %s", path, got.Status, got.Body)
		}
		if err := json.Unmarshal([]byte(got.Body), out); err != nil {
			w.T.Fatal(err)
		}
	}
	get("/openapi/openapi.json", &document)
	var pipelines, connectors []struct{ ID string }
	get("/v1/pipelines", &pipelines)
	get("/v1/connectors", &connectors)
	for path, methods := range document.Paths {
		if get, ok := methods["get"]; !ok || get.Streaming {
			continue
		}
		ids := pipelines
		if strings.Contains(path, "/connectors/{") {
			ids = connectors
		}
		before, rest, varies := strings.Cut(path, "{")
		if !varies {
			paths = append(paths, path)
			continue
		}
		_, after, _ := strings.Cut(rest, "}")
		for _, one := range ids {
			paths = append(paths, before+url.PathEscape(one.ID)+after)
		}
	}
	return paths
}
