package builtin_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func TestAll(t *testing.T) {
	version := regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
	var names []string
	for _, c := range builtin.All() {
		names = append(names, c.Name)
		if c.Summary == "" || c.Description == "" || c.Author != "conduit" || !version.MatchString(c.Version) {
			t.Errorf("%s is described incompletely: %+v", c.Name, c)
		}
	}
	if want := []string{"exec", "file", "generator", "http", "journald", "kafka", "log", "mqtt", "mysql", "nats", "postgres", "redis", "s3", "spool", "sqlite", "syslog"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// The contract of connectors is checked of each: in its package, or in that of the checks. Two have tests of
// their own: syslog cannot read again what it read, and what spool reads is what it wrote.
func TestContractIsChecked(t *testing.T) {
	for _, c := range builtin.All() {
		checked := slices.Contains([]string{"file", "generator", "log", "spool", "syslog"}, c.Name)
		files, err := filepath.Glob(filepath.Join(c.Name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			checked = checked || strings.Contains(string(text), "plugintest.Run(t, ")
		}
		if !checked {
			t.Errorf("no test runs the checks of the contract on built-in connector %s", c.Name)
		}
	}
}

// TestStandard moves lines from the generator through a file into another file, all with
// the settings that every connector has.
func TestStandard(t *testing.T) {
	byName := map[string]sdk.Connector{}
	for _, c := range builtin.All() {
		byName[c.Name] = sdk.Standard(c)
	}
	ctx, between := t.Context(), filepath.Join(t.TempDir(), "between")
	generator, to, from := byName["generator"].NewSource(), byName["file"].NewDestination(), byName["file"].NewSource()
	for _, err := range []error{
		generator.Configure(ctx, map[string]string{"format.type": "raw", "recordCount": "100"}),
		to.Configure(ctx, map[string]string{"path": between, "sdk.record.format": "template", "sdk.record.format.options": "{{ printf \"%s\" .Position }}"}),
		from.Configure(ctx, map[string]string{"path": between}),
		generator.Open(ctx, nil), to.Open(ctx), from.Open(ctx, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := generator.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := to.Write(ctx, made); n != 100 || err != nil {
		t.Fatalf("wrote %d records: %v", n, err)
	}
	lines, err := from.Read(ctx)
	if err != nil || len(lines) != 100 {
		t.Fatalf("got %d records: %v", len(lines), err)
	}
	if line, _ := lines[99].After.Raw(); string(line) != "100" {
		t.Errorf("got %q in the last line, want the position 100", line)
	}
	for _, err := range []error{generator.Teardown(ctx), to.Teardown(ctx), from.Teardown(ctx)} {
		if err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{"generator": "true", "file": "false"} {
		if got := byName[name].NewSource().Parameters()["sdk.schema.extract.payload.enabled"].Default; got != want {
			t.Errorf("%s: schemas are extracted by default: %s, want %s", name, got, want)
		}
	}
}

// TestREADME makes sure that the README has a row for every setting, with its default.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	check := func(connector string, all sdk.Parameters) {
		readme := readme
		if own, err := os.ReadFile(filepath.Join(connector, "README.md")); err == nil {
			readme = append(own, readme...) // which has the sdk.* settings
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text := all[name].Default
			if text != "" {
				text = "`" + text + "`"
			}
			if row := "| `" + name + "` |"; !hasRow(string(readme), row, text) {
				t.Errorf("the README has no row %s with the default %q, a setting of %s", row, text, connector)
			}
			if all[name].Description == "" {
				t.Errorf("%s: setting %s has no description", connector, name)
			}
		}
	}
	for _, c := range builtin.All() {
		if c.NewSource != nil {
			check(c.Name, c.NewSource().Parameters())
		}
		if c.NewDestination != nil {
			check(c.Name, c.NewDestination().Parameters())
		}
	}
}

func hasRow(text, row, def string) bool {
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if strings.HasPrefix(line, row) && len(cells) > 3 && strings.TrimSpace(cells[3]) == def {
			return true
		}
	}
	return false
}

// libraries are those that connectors bring, by the connector.
var libraries = map[string]string{
	"http":     "plugins/builtin/http",
	"journald": "plugins/builtin/journald",
	"kafka":    "github.com/twmb/franz-go",
	"mqtt":     "github.com/eclipse/paho",
	"mysql":    "github.com/go-sql-driver/mysql",
	"nats":     "plugins/builtin/nats",
	"postgres": "github.com/jackc/pgx",
	"redis":    "github.com/gomodule/redigo",
	"s3":       "github.com/minio/minio-go",
	"sqlite":   "plugins/builtin/sqlite",
	"syslog":   "plugins/builtin/syslog",
}

// TestLeftOut makes sure that a build without a connector is without its library.
func TestLeftOut(t *testing.T) {
	deps := func(tags string) string {
		out, err := exec.Command("go", "list", "-deps", "-tags", tags, "github.com/conduit-agent/conduit/cmd/conduit").CombinedOutput()
		if err != nil {
			t.Fatalf("cannot list packages: %v\n%s", err, out)
		}
		return string(out)
	}
	all, minimal := deps(""), deps("minimal")
	for name, library := range libraries {
		if !strings.Contains(all, library) {
			t.Errorf("the full build has no %s", name)
		}
		if strings.Contains(minimal, library) {
			t.Errorf("the minimal build has %s", library)
		}
		if os.Getenv("CI") != "" && strings.Contains(deps("no_"+name), library) { // which takes a second each
			t.Errorf("a build without %s has %s", name, library)
		}
	}
}
