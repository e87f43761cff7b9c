package builtin_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/record"
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
	if want := []string{"datadog", "elasticsearch", "exec", "file", "generator", "http", "influxdb", "journald", "kafka",
		"log", "loki", "mqtt", "mysql", "nats", "otlp", "postgres", "prometheus", "redis", "s3", "socket",
		"splunk", "spool", "sqlite", "syslog", "websocket"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// The README of the project lists every connector.
func TestReadmeListsAll(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^\| built-in connectors: \[(.*?)\]\(plugins/builtin/README\.md\)`).FindSubmatch(
		page)
	if listed == nil {
		t.Fatal("README.md has no list of built-in connectors")
	}
	for _, c := range builtin.All() {
		if !slices.Contains(strings.Split(string(listed[1]), ", "), c.Name) {
			t.Errorf("README.md does not list %s", c.Name)
		}
	}
}

// TestContractIsChecked checks that every connector is tested against the contract: in its package, in the package of
// the checks, or in a campaign with its server. Some connectors have other tests: socket and syslog cannot read a
// message twice, and spool reads only the records that it wrote.
func TestContractIsChecked(t *testing.T) {
	for _, c := range builtin.All() {
		checked := slices.Contains([]string{"file", "generator", "log", "socket", "spool", "syslog"}, c.Name)
		for _, dir := range []string{"plugins/builtin/", "agent/agenttest/campaign/connectors/"} {
			checked = checked || hasTest(t, dir+c.Name, `plugintest\.Run\(t, `)
		}
		if !checked {
			t.Errorf("no test runs the checks of the contract on built-in connector %s", c.Name)
		}
	}
}

// TestForeignPositions opens each source, in each mode, at a position of another source. The error is permanent, tells
// users the remedy, and occurs before any connection.
func TestForeignPositions(t *testing.T) {
	modes := map[string][]map[string]string{
		"exec":      {{"command": `["true"]`}},
		"file":      {{"path": "in"}, {"path": "*.log"}},
		"generator": {{"format.type": "raw", "format.options.n": "int"}},
		"http":      {{"address": "127.0.0.1:0"}, {"url": "http://127.0.0.1:1"}},
		"journald":  {{}},
		"kafka":     {{"servers": "127.0.0.1:1", "topics": "t"}},
		"mqtt":      {{"url": "mqtt://127.0.0.1:1", "topics": "t"}},
		"mysql":     {{"address": "127.0.0.1:1", "database": "db", "user": "u", "tables": "t"}},
		"nats": {{"url": "nats://127.0.0.1:1", "stream": "s"},
			{"url": "nats://127.0.0.1:1", "type": "core", "subjects": "s"}},
		"otlp":       {{"addresses": "127.0.0.1:0"}},
		"postgres":   {{"url": "postgres://127.0.0.1:1/db", "tables": "t"}},
		"prometheus": {{"address": "127.0.0.1:0"}, {"mode": "scrape", "targets": "http://127.0.0.1:1"}},
		"redis": {
			{"url": "redis://127.0.0.1:1", "type": "stream", "key": "k"},
			{"url": "redis://127.0.0.1:1", "type": "list", "key": "k"},
			{"url": "redis://127.0.0.1:1", "type": "pubsub", "key": "k"},
		},
		"s3": {{"aws.bucket": "b", "aws.region": "r", "aws.endpoint": "http://127.0.0.1:1", "aws.accessKeyId": "a",
			"aws.secretAccessKey": "s"}},
		"socket":    {{"address": "tcp://127.0.0.1:0"}, {"address": "tcp://127.0.0.1:1", "mode": "connect"}},
		"spool":     {{"path": "spool"}},
		"sqlite":    {{"path": "db", "tables": "t"}},
		"syslog":    {{"address": "127.0.0.1:0", "protocols": "tcp"}},
		"websocket": {{"url": "ws://127.0.0.1:1"}, {"mode": "listen", "address": "127.0.0.1:0"}},
	}
	for _, c := range builtin.Connectors(exec.Options{Enabled: true}) {
		if c.NewSource != nil && modes[c.Name] == nil {
			t.Errorf("%s is a source without settings here", c.Name)
		}
		for _, settings := range modes[c.Name] {
			t.Run(fmt.Sprint(c.Name, " ", settings), func(t *testing.T) {
				t.Chdir(t.TempDir())
				s := c.NewSource()
				settings = s.Parameters().ApplyDefaults(settings)
				if wrong := s.Parameters().Check(settings); len(wrong) > 0 {
					t.Fatal(wrong)
				}
				if err := s.Configure(t.Context(), settings); err != nil {
					t.Fatal(err)
				}
				err := s.Open(t.Context(), record.Position("none of yours"))
				var permanent interface{ Permanent() bool }
				if !errors.As(err, &permanent) || !strings.Contains(err.Error(), `"none of yours"`) ||
					!strings.HasSuffix(err.Error(), sdk.StartOver) {
					t.Errorf("the error is %v", err)
				}
				if err := s.Teardown(t.Context()); err != nil {
					t.Errorf("Teardown: %v", err)
				}
			})
		}
	}
}

// TestStandard moves lines from the generator through a file to another file, with the settings that every connector
// has.
func TestStandard(t *testing.T) {
	byName := map[string]sdk.Connector{}
	for _, c := range builtin.All() {
		byName[c.Name] = sdk.Standard(c)
	}
	ctx, between := t.Context(), filepath.Join(t.TempDir(), "between")
	generator, to, from := byName["generator"].NewSource(), byName["file"].NewDestination(), byName["file"].NewSource()
	for _, err := range []error{
		generator.Configure(ctx, map[string]string{"format.type": "raw", "recordCount": "100"}),
		to.Configure(ctx, map[string]string{"path": between, "sdk.record.format": "template",
			"sdk.record.format.options": "{{ printf \"%s\" .Position }}"}),
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

// TestREADME checks that the README has a row for every setting, with its default.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	check := func(connector string, all sdk.Parameters) {
		readme := readme
		if own, err := os.ReadFile(filepath.Join(connector, "README.md")); err == nil {
			readme = append(own, readme...) // it contains the sdk.* settings
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

// TestPromises checks that every source and destination that moves data has a row in the table of promises, and that
// the tests named in the row exist.
func TestPromises(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "| connector | promise |")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, c := range builtin.All() {
		if slices.Contains([]string{"generator", "log", "spool"}, c.Name) {
			continue
		}
		if c.NewSource != nil && !strings.Contains(table, "\n| `"+c.Name+"` source") || c.NewDestination != nil &&
			!strings.Contains(table, "\n| `"+c.Name+"` destination") {
			t.Errorf("the promise of a side of %s is missing", c.Name)
		}
	}
	tests, in := regexp.MustCompile("`(Test\\w*)(…?)`"), regexp.MustCompile(" in `([a-z0-9/]+)`")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for part := range strings.SplitSeq(cells[len(cells)-2], ";") {
			for _, test := range tests.FindAllStringSubmatch(part, -1) {
				end := map[bool]string{true: `\w*\(`, false: `\(`}[test[2] != ""]
				if dir := in.FindStringSubmatch(part); dir == nil || !hasTest(t, dir[1], "(?m)^func "+test[1]+end) {
					t.Errorf("there is no test %s as in %q", test[0], part)
				}
			}
		}
	}
}

// TestPages checks the content of each connector page: an example that a test runs, required privileges, the cost for
// the other side, and three errors with their remedies.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("*/README.md")
	if err != nil || len(pages) != 21 {
		t.Fatalf("there are %d pages: %v", len(pages), err)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page := strings.ToLower(string(text))
		for _, part := range []string{"```yaml\n", "privilege", "cost"} {
			if !strings.Contains(page, part) {
				t.Errorf("%s has no %q", path, part)
			}
		}
		errors := 0
		for _, table := range strings.Split(page, "| error | remedy |\n|---|---|\n")[1:] {
			rows, _, _ := strings.Cut(table+"\n", "\n\n")
			errors += strings.Count("\n"+rows, "\n|")
		}
		if errors < 3 {
			t.Errorf("%s has %d errors with remedies", path, errors)
		}
		if !hasTest(t, "agent/agenttest/campaign/kill", `"plugins/builtin/`+path+`"`) {
			t.Errorf("no test runs the example of %s", path)
		}
	}
}

// hasTest reports whether a test file of a directory matches.
func hasTest(t *testing.T, dir, pattern string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && regexp.MustCompile(pattern).Match(text)
	})
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

// TestSourcesTellTheirLimits checks that every source with a setting that bounds its unacknowledged records reports the
// bound to the host: otherwise batches and windows wait for records that cannot come.
func TestSourcesTellTheirLimits(t *testing.T) {
	bounds := regexp.MustCompile(`not acknowledged|wait for acknowledgements`)
	limits := map[string]struct {
		settings map[string]string
		most     int // of the source with these settings; 0: it says itself when it is stalled, or has no limit
	}{
		"mqtt receiveMaximum": {map[string]string{"url": "mqtt://127.0.0.1:1", "topics": "t",
			"receiveMaximum": "7"}, 7},
		"mqtt receiveMaximum, QoS": {map[string]string{"url": "mqtt://127.0.0.1:1", "topics": "t", "qos": "0"}, 0},
		"nats maxAckPending": {map[string]string{"url": "nats://127.0.0.1:1", "stream": "s",
			"maxAckPending": "7"}, 7},
		"nats maxAckPending, core": {map[string]string{"url": "nats://127.0.0.1:1", "type": "core", "subjects": "s"},
			0},
		"socket limit.messages":     {map[string]string{"address": "tcp://:1", "limit.messages": "7"}, 7},
		"syslog limit.messages":     {map[string]string{"limit.messages": "7"}, 7},
		"http limit.requests":       {map[string]string{}, 0},
		"otlp limit.requests":       {map[string]string{}, 0},
		"prometheus limit.requests": {map[string]string{}, 0},
	}
	for _, c := range builtin.All() {
		if c.NewSource == nil {
			continue
		}
		for name, p := range c.NewSource().Parameters() {
			if _, ok := limits[c.Name+" "+name]; bounds.MatchString(p.Description) && !ok {
				t.Errorf("setting %s of source %s bounds what is not acknowledged, and is not tried here", name, c.Name)
			}
		}
		for name, l := range limits {
			if plugin, _, _ := strings.Cut(name, " "); plugin != c.Name {
				continue
			}
			s := c.NewSource()
			if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(l.settings)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			limited, ok := s.(sdk.LimitedSource)
			if ok {
				if most := limited.MaxUnacked(); most != l.most {
					t.Errorf("%s: %d records may be unacknowledged, want %d", name, most, l.most)
				}
			} else if l.most > 0 {
				t.Errorf("%s: the source does not tell its limit", name)
			}
		}
	}
}
