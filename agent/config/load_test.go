package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/agent/config"
)

// load loads settings with conduit.yaml in the working directory.
func load(t *testing.T, yaml string, env []string, flags map[string]string) (config.Config, []string, string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if yaml != "" {
		if err := os.WriteFile("conduit.yaml", []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, warnings, err := config.Load(config.Sources{Env: env, Flags: flags})
	var said []string
	for _, w := range warnings {
		said = append(said, w.String())
	}
	if err != nil {
		return c, said, err.Error()
	}
	return c, said, ""
}

func TestProblems(t *testing.T) {
	tests := []struct {
		name  string
		yaml  string
		env   []string
		flags map[string]string
		want  string
	}{
		{"unknown key", "log:\n  levle: info\n", nil, nil,
			"conduit.yaml:2:3: no such setting: log.levle; did you mean \"log.level\"?"},
		{"unknown dotted key", "x.y: 1\n", nil, nil, "conduit.yaml:1:1: no such setting: x.y"},
		{"string for a number", "pipelines:\n  error-recovery:\n    max-retries: 'five'\n", nil, nil,
			`conduit.yaml:3:5: pipelines.error-recovery.max-retries: "five" is not a whole number`},
		{"number below the least", "pipelines.error-recovery.backoff-factor: 0", nil, nil,
			"conduit.yaml:1:1: pipelines.error-recovery.backoff-factor: must be at least 1, not 0"},
		{"number for a duration", "shutdown.timeout: 30", nil, nil,
			"conduit.yaml:1:1: shutdown.timeout: 30 is not a duration such as 500ms, 10s or 1h30m"},
		{"duration too long to hold", "shutdown.timeout: 9999999999h", nil, nil,
			`conduit.yaml:1:1: shutdown.timeout: "9999999999h" is not a duration such as 500ms, 10s or 1h30m`},
		{"duration below zero", "pipelines.confirm: -1s", nil, nil,
			`conduit.yaml:1:1: pipelines.confirm: "-1s" is not a duration such as 500ms, 10s or 1h30m`},
		{"text for a bool", "pipelines.exit-on-degraded: 'yes'", nil, nil,
			`conduit.yaml:1:1: pipelines.exit-on-degraded: "yes" is neither true nor false`},
		{"not one of", "log.level: loud", nil, nil,
			`conduit.yaml:1:1: log.level: "loud" is not one of trace, debug, info, warn, error`},
		{"number for text", "db.sqlite.path: 2024", nil, nil,
			"conduit.yaml:1:1: db.sqlite.path: 2024 is not text: put it in quotes"},
		{"list for text", "db.sqlite.path: [a]", nil, nil,
			"conduit.yaml:1:1: db.sqlite.path: a list is not allowed here"},
		{"mode", "api.http.socket-mode: 0999", nil, nil,
			`conduit.yaml:1:1: api.http.socket-mode: "0999" is not an octal number such as 0660`},
		{"item not one of", "notify.kinds: [degraded, dead]", nil, nil,
			`conduit.yaml:1:1: notify.kinds: "dead" is not one of degraded, failing, update-failed, ` +
				`not-delivering, silent, isolation-full, recovered, file-problem, ` +
				`file-accepted, files-missing, files-available, cluster`},
		{"list", "log.level: [info]", nil, nil,
			`conduit.yaml:1:1: log.level: a list is not one of trace, debug, info, warn, error`},
		{"value for a group", "log: info", nil, nil, `conduit.yaml:1:1: log: must be a group of settings, not a value`},
		{"set twice", "log.level: info\nlog:\n  level: warn", nil, nil,
			`conduit.yaml:3:3: log.level is set twice, first on line 1`},
		{"list at the top", "- a", nil, nil, `conduit.yaml:1:1: must be settings, written key: value`},
		{"tab", "log:\n\tlevel: info\n", nil, nil,
			`conduit.yaml:2:1: the YAML is not valid: this line is indented with a tab; YAML is indented with spaces`},
		{"open quote", "log:\n  level: \"info\n  format: \"json\"\n", nil, nil,
			`conduit.yaml:2:10: the YAML is not valid: the quote " that opens here is not closed on its line`},
		{"no YAML", "log:\n  level: info\n format: json\n", nil, nil,
			`conduit.yaml:3:2: the YAML is not valid here or shortly after: did not find expected key; check the ` +
				`indentation of this block and that its quotes and brackets are closed`},
		{"nested in itself", "log: &a\n  level: *a\n", nil, nil, "conduit.yaml:2:10: the file is too large, or " +
			"nested too deeply"},
		{"all at once", "a: 1\nb: 2\n", nil, nil,
			"conduit.yaml:1:1: no such setting: a\nconduit.yaml:2:1: no such setting: b"},
		{"variable", "", []string{"CONDUIT_SHUTDOWN_TIMEOUT=soon"}, nil,
			`CONDUIT_SHUTDOWN_TIMEOUT: "soon" is not a duration such as 500ms, 10s or 1h30m`},
		{"flag", "", nil, map[string]string{"log.format": "xml"}, `--log.format: "xml" is not one of cli, json`},
		{"unknown flag", "", nil, map[string]string{"x": "y"}, `--x: no such setting`},
		{"two stores of a cluster",
			"cluster:\n  name: edge\n  nats: {url: 'nats://n1'}\n  postgres:\n    url: 'postgres://db'\n", nil, nil,
			"conduit.yaml:5:5: cluster.postgres.url: cluster.nats.url is also set, at conduit.yaml:3:10: a cluster " +
				"has one store; remove one of them"},
		{"a reference in a setting of a cluster",
			"cluster:\n  name: edge\n  nats:\n    url: 'nats://me:${env:NATS_PASSWORD}@n1'\n", nil, nil,
			"conduit.yaml:4:5: cluster.nats.url: references ${…} are for pipeline files: set the variable " +
				"CONDUIT_CLUSTER_NATS_URL to the whole value, or name a file with the secret in " +
				"cluster.nats.credentials-file or cluster.postgres.password-file"},
		{"no store of a cluster", "cluster.name: edge\n", nil, nil,
			"conduit.yaml:1:1: cluster.name: a cluster needs a store: set cluster.nats.url or cluster.postgres.url"},
		{"empty path", "pipelines.path: ''", nil, nil, "conduit.yaml:1:1: pipelines.path: must not be empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := load(t, tt.yaml, tt.env, tt.flags); err != tt.want {
				t.Errorf("\n got %s\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAliasesOfAliases(t *testing.T) {
	var yaml strings.Builder
	yaml.WriteString("l0: &l0 {a: 1}\n")
	for i := range 12 {
		fmt.Fprintf(&yaml, "l%d: &l%d {a: *l%[3]d, b: *l%[3]d, c: *l%[3]d, d: *l%[3]d}\n", i+1, i+1, i)
	}
	if _, _, err := load(t, yaml.String(), nil, nil); !strings.Contains(err, "the file is too large") {
		t.Error("4^12 settings are not too much")
	}
}

// A conduit.yaml written by Conduit, with all its variables and flags, is accepted with warnings only, one for each
// key that asks for a different behavior.
func TestForeignSettings(t *testing.T) {
	for _, f := range config.ForeignSettings() {
		name := "CONDUIT_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(f.Key))
		for where, warn := range map[string]func() ([]string, string){
			f.Key + " ": func() ([]string, string) { _, w, err := load(t, f.Key+": other\n", nil, nil); return w, err },
			name: func() ([]string, string) {
				_, w, err := load(t, "", []string{name + "=other"}, nil)
				return w, err
			},
			"--" + f.Key: func() ([]string, string) {
				_, w, err := load(t, "", nil, map[string]string{f.Key: "other"})
				return w, err
			},
		} {
			if warnings, err := warn(); err != "" || len(warnings) != 1 || !strings.Contains(warnings[0], where) ||
				!strings.Contains(warnings[0], "has no effect: ") {
				t.Errorf("%s: got %v %v", where, warnings, err)
			}
		}
	}
	if len(config.ForeignSettings()) < 15 {
		t.Error("keys are missing")
	}
	_, warnings, err := load(t, "config.path: /etc/conduit.yaml\ndb.type: badger\ndev.enabled: true\n",
		[]string{"CONDUIT_DB_TYPE=postgres"}, map[string]string{"db.type": "inmemory"})
	if err != "" || len(warnings) != 1 {
		t.Errorf("got %v %v", warnings, err)
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name string
		yaml string
		env  []string
		want string
	}{
		{"group of another agent", "api:\n  grpc:\n    address: :8084\n", nil,
			"conduit.yaml:3:5: api.grpc.address has no effect: the API is served over HTTP only, at api.http.address"},
		{"other store", "db.type: badger\n", nil,
			"conduit.yaml:1:1: db.type has no effect: state is kept in SQLite, at db.sqlite.path; conduit migrate " +
				"takes over the state of a Conduit"},
		{"this store", "db.type: sqlite\n", nil, ""},
		{"variable of another agent", "", []string{"CONDUIT_DB_BADGER_PATH=x"},
			"CONDUIT_DB_BADGER_PATH: has no effect: state is kept in SQLite, at db.sqlite.path; conduit migrate " +
				"takes over the state of a Conduit"},
		{"misspelt variable", "", []string{"CONDUIT_LOG_LEVLE=x"},
			"CONDUIT_LOG_LEVLE: no such setting; did you mean \"CONDUIT_LOG_LEVEL\"?"},
		{"empty variable", "", []string{"CONDUIT_LOG_LEVEL=", "CONDUIT_LOG_LEVLE="}, ""},
		{"path of the file", "", []string{"CONDUIT_CONFIG_PATH=x"}, ""},
		{"empty groups and values", "log:\npipelines: {}\ndb: {sqlite: {path: }}\n", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, warnings, err := load(t, tt.yaml, tt.env, nil)
			if got := strings.Join(warnings, "\n"); got != tt.want || err != "" {
				t.Errorf("\n got %s %s\nwant %s", got, err, tt.want)
			}
			if c.DB.SQLite.Path != "conduit.db" {
				t.Errorf("settings lost: %+v", c)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "other.yaml")
	if _, _, err := config.Load(config.Sources{Path: missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a file that was asked for may be missing: %v", err)
	}
}

// A file with the right name that cannot be a file of settings is reported. It is never waited for or taken as
// missing.
func TestNoFileOfSettings(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"directory", func(path string) error { return os.Mkdir(path, 0o700) },
			"conduit.yaml is not a regular file but a directory: rename it, or name the file of settings with " +
				"--config.path"},
		{"FIFO", func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"conduit.yaml is not a regular file but a FIFO: rename it, or name the file of settings with " +
				"--config.path"},
		{"link to nothing", func(path string) error { return os.Symlink("gone.yaml", path) },
			"conduit.yaml is a symbolic link to gone.yaml, which does not exist: create that file, or remove the " +
				"link to use the defaults"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := tt.make(config.DefaultPath); err != nil {
				t.Fatal(err)
			}
			if _, _, err := config.Load(config.Sources{}); err == nil ||
				err.Error() != "cannot read settings: "+tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestTemplateIsTheDefaults(t *testing.T) {
	template := string(config.Template())
	want, _, _ := load(t, "", nil, nil)
	got, warnings, err := load(t, template, nil, nil)
	want.Effective, got.Effective = nil, nil // these name the file
	if diff := cmp.Diff(want, got); diff != "" || warnings != nil || err != "" {
		t.Errorf("(-want +got):\n%s%v %s", diff, warnings, err)
	}
	for _, s := range config.Settings() {
		if !strings.Contains(template, "# "+s.Meaning()+"\n") {
			t.Errorf("%s is not explained", s.Key)
		}
	}
}

// An editor finds nothing wrong with the template, by the schema that its first line names.
func TestTemplateFitsItsSchema(t *testing.T) {
	template := config.Template()
	first := "# yaml-language-server: $schema=./" + config.SchemaFile + "\n"
	if !strings.HasPrefix(string(template), first) {
		t.Errorf("it does not begin with %s", first)
	}
	var v any
	if err := yaml.Unmarshal(template, &v); err != nil {
		t.Fatal(err)
	}
	for _, violation := range schema.Validate(v) {
		t.Errorf("%+v", violation)
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"log.level: .nan", "pipelines.error-recovery.max-retries: .inf", "pipelines.error-recovery.max-retries: -.inf",
		"pipelines.error-recovery.max-retries: 1e400", "pipelines.error-recovery.max-retries: 99999999999999999999999",
		"pipelines.error-recovery.max-retries: 18446744073709551615", "shutdown.timeout: !!binary aGk=",
		"shutdown.timeout: 2026-01-01", "? [a]\n: b", "<<: {log: {level: warn}}", "1: 2", "log: !!map", "&a a: *a",
		"---\n---\n",
		"pipelines.error-recovery.backoff-factor: 2.0", ". : .", "log.: x", "\x00",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "conduit.yaml")
	f.Fuzz(func(t *testing.T, yaml []byte) {
		if err := os.WriteFile(path, yaml, 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := config.Load(config.Sources{Path: path})
		if err == nil && (c.Pipelines.ErrorRecovery.BackoffFactor < 1 || c.DB.SQLite.Path == "" || c.Log.Level == "") {
			t.Errorf("accepted as %+v", c)
		}
	})
}

// TestSettingsOfTheirOwnForm checks an octal number that YAML does not read as one, and a list.
func TestSettingsOfTheirOwnForm(t *testing.T) {
	for text, want := range map[string]config.HTTP{
		"{socket-mode: 0660}":   {SocketMode: "0660"},
		"{socket-mode: '0640'}": {SocketMode: "0640"},
		"{cors: {allowed-origins: [https://a.example, https://b.example]}}": {SocketMode: "0600",
			CORS: config.CORS{AllowedOrigins: "https://a.example,https://b.example"}},
		"{cors: {allowed-origins: '[]'}}": {SocketMode: "0600", CORS: config.CORS{AllowedOrigins: "[]"}},
		"{cors: {allowed-origins: []}}":   {SocketMode: "0600"},
	} {
		got, warnings, err := load(t, "api: {http: "+text+"}", nil, nil)
		want.Address = "127.0.0.1:8080"
		if got.API.HTTP != want || warnings != nil || err != "" {
			t.Errorf("%s: %+v, warnings %v, error %s", text, got.API.HTTP, warnings, err)
		}
	}
	if _, _, err := load(t, "api: {http: {socket-mode: 0999}}", nil, nil); !strings.Contains(err, "socket-mode") {
		t.Errorf("a mode that is none: %q", err)
	}
}

// Every list may be a list of YAML.
func TestLists(t *testing.T) {
	got, warnings, err := load(t, `
processors: {egress: {allow: [a.example, 'https://b.example:8443'], secret-refs: key}}
cluster: {labels: [site=berlin, disk=ssd]}
`, nil, nil)
	if got.Processors.Egress.Allow != "a.example,https://b.example:8443" || got.Processors.Egress.SecretRefs != "key" ||
		got.Cluster.Labels != "site=berlin,disk=ssd" || warnings != nil || err != "" {
		t.Errorf("%+v, warnings %v, error %s", got, warnings, err)
	}
}
