// Package imports_test checks the allowed imports between packages, and of libraries.
package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/conduit-agent/conduit"

// direction is a part of the tree, and the other parts that it may import.
type direction struct {
	part string
	may  []string
}

// directions lists the parts that each part of the tree may import. A part may always import itself. The engine, the
// store, the reconciler, the API and the plugins meet only in agent.
var directions = []direction{
	{"schemas", nil},
	{"spec", []string{"schemas", "plugins/record", "plugins/pluginname", "plugins/progress"}},
	{"plugins/record", []string{"spec/*"}},
	{"plugins/pluginname", []string{"spec/*"}},
	{"plugins", []string{"spec", "schemas"}},
	{"reconcile", []string{"spec", "plugins/pluginname"}},
	{"api", []string{"spec", "schemas", "plugins/record", "plugins/progress", "plugins/peer", "plugins/schema",
		"plugins/pluginname"}},
	{"agent/engine", []string{"spec", "plugins/connector", "plugins/record", "plugins/progress", "plugins/pluginname",
		"plugins/sdk"}},
	{"agent/store", []string{"spec", "plugins/record", "plugins/schema", "agent/sqlitefile"}},
	{"agent/cluster/protocol", []string{"spec/*"}},
	{"agent", []string{"spec", "schemas", "plugins", "reconcile", "api"}},
	{"cmd", []string{"spec", "schemas", "plugins", "reconcile", "api", "agent", "."}},
}

// parents are the packages that may import a package above them. Helpers of tests may do so, too.
var parents = []string{"agent/cluster/deadletters", "agent/cluster/member", "plugins/standalone",
	"plugins/sdk/wasmguest"}

// homes maps packages, most of them outside libraries, to the packages that may import them. A package that is not
// listed may be imported anywhere.
var homes = map[string][]string{
	// The bodies of the REST API; the words of all packages are in spec.
	module + "/api/rest": {"api", "api/*", "agent", "agent/catalog", "agent/migrate", "agent/agenttest*",
		"cmd/conduit/cli"},
	"github.com/hashicorp/go-plugin": {"plugins/wire", "plugins/standalone"},
	"google.golang.org/grpc": {"plugins/wire", "plugins/wire/wirepb/*", "plugins/standalone",
		"plugins/builtin/otlp", "agent/telemetry/otlp"},
	"github.com/mattn/go-sqlite3": {"agent/store", "agent/deadletter", "agent/sqlitefile",
		"plugins/builtin/sqlite"},
	"database/sql": {"agent/store", "agent/deadletter", "agent/sqlitefile",
		"plugins/builtin/mysql", "plugins/builtin/sqlite", "plugins/builtin/sqlsink",
		"plugins/plugintest/builtintest"},
	"github.com/fsnotify/fsnotify":             {"reconcile/watch"},
	"github.com/julienschmidt/httprouter":      {"api"},
	"nhooyr.io/websocket":                      {"api/inspect", "api/client", "plugins/builtin/websocket"},
	"github.com/modelcontextprotocol/go-sdk":   {"api/mcp"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas"},
	"github.com/knadh/koanf":                   {"agent/config"},
	"github.com/peterbourgon/ff/v3":            {"cmd/conduit", "cmd/conduit/*"},
	"github.com/yuin/goldmark":                 {"cmd/conduit/docs"},
	"github.com/twmb/avro":                     {"plugins/schema"},
	"github.com/prometheus/client_golang":      {"agent/telemetry", "agent/telemetry/otlp"},
	"github.com/prometheus/client_model":       {"plugins/builtin/prometheus"},
	"github.com/prometheus/common":             {"plugins/builtin/prometheus"},
	"github.com/Masterminds/sprig/v3":          {"plugins/template"},
	"github.com/coreos/go-systemd":             {"agent/process", "cmd/conduit"},
	"github.com/klauspost/compress": {"plugins/zstd", "plugins/builtin/mysql/binlog",
		"plugins/builtin/prometheus"},
	"github.com/expr-lang/expr":      {"plugins/processor/expr"},
	"github.com/tetratelabs/wazero":  {"plugins/processor/wasm"},
	"github.com/dop251/goja":         {"plugins/processor/javascript"},
	"github.com/dlclark/regexp2/v2":  {"plugins/processor/javascript"},
	"golang.org/x/term":              {"cmd/conduit", "cmd/conduit/cli"},
	"github.com/eclipse/paho.golang": {"plugins/builtin/mqtt"},
	"github.com/go-sql-driver/mysql": {"plugins/builtin/mysql"},
	"github.com/jackc/pgx/v5": {"plugins/builtin/postgres", "plugins/builtin/postgres/*",
		"agent/cluster/pgkv"},
	"github.com/gomodule/redigo":          {"plugins/builtin/redis"},
	"github.com/twmb/franz-go":            {"plugins/builtin/kafka"},
	"go.opentelemetry.io/proto/otlp":      {"plugins/builtin/otlp"},
	"go.opentelemetry.io/otel":            {"agent/telemetry/otlp"},
	"go.opentelemetry.io/contrib":         {"agent/telemetry/otlp"},
	"google.golang.org/genproto":          {"plugins/builtin/otlp"},
	"github.com/minio/minio-go/v7":        {"plugins/builtin/s3"},
	"github.com/parquet-go/parquet-go":    {"plugins/parquet"},
	"github.com/caio/go-tdigest/v4":       {"plugins/processor/window"},
	"github.com/elastic/go-grok":          {"plugins/processor/parse"},
	"github.com/axiomhq/hyperloglog":      {"plugins/processor/window"},
	"github.com/landlock-lsm/go-landlock": {"plugins/sandbox"},
}

func TestImportsRunOneWay(t *testing.T) {
	files := 0
	// Parse the files instead of calling go list: the test then reads them, so a changed file invalidates a cached test
	// result.
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, ends := os.Stat(filepath.Join(name, "go.mod"))
			if name != top && (ends == nil || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(top, filepath.Dir(name))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if ignored(file) {
			return nil
		}
		files++
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, filepath.ToSlash(dir), imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("there are %d files only", files)
	}
}

// top is the root of the repository.
const top = "../../.."

// ignored reports whether a file is a separate program, such as one for "go generate".
func ignored(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Text == "//go:build ignore" {
				return true
			}
		}
	}
	return false
}

// partOf returns the index of the narrowest part that contains pkg.
func partOf(pkg string) int {
	return slices.IndexFunc(directions, func(d direction) bool { return within(pkg, d.part) })
}

// within reports whether pkg matches pattern: a package and all packages below it, or with /* only the packages below.
func within(pkg, pattern string) bool {
	above, below := strings.CutSuffix(pattern, "/*")
	return strings.HasPrefix(pkg, above+"/") || pkg == above && !below
}

func checkImport(t *testing.T, pkg, imported string) {
	for library, places := range homes {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && !includes(places, pkg) {
			t.Errorf("%s imports %s, whose home is %s", pkg, imported, strings.Join(places, ", "))
		}
	}
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		from := partOf(pkg)
		if from < 0 {
			t.Errorf("%s belongs to no part of the tree", pkg)
			return
		}
		may := append([]string{directions[from].part}, directions[from].may...)
		if !slices.ContainsFunc(may, func(part string) bool { return within(ours, part) }) {
			t.Errorf("%s imports %s: %s may import only %s", pkg, ours, directions[from].part, strings.Join(may, ", "))
		}
		if strings.HasPrefix(pkg, ours+"/") && !slices.Contains(parents, pkg) && !within(pkg, "agent/agenttest") &&
			!within(pkg, "plugins/plugintest") {
			t.Errorf("%s imports its parent %s", pkg, ours)
		}
	}
}

// includes reports whether pkg is in the list of packages.
func includes(packages []string, pkg string) bool {
	return slices.ContainsFunc(packages, func(p string) bool {
		below, all := strings.CutSuffix(p, "*")
		return pkg == p || all && strings.HasPrefix(pkg, below)
	})
}
