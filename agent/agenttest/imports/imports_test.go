// Package imports_test checks which packages import which, and which libraries.
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

// leaves are the packages that every other one may import. They import none of ours but leaves.
const leaves = "plugins/children plugins/logthrottle plugins/peer plugins/pluginname plugins/progress plugins/record " +
	"plugins/schema/avro plugins/zstd schemas spec/fingerprint spec/lazy spec/needcgo " +
	"spec/notify spec/private spec/ref spec/secret spec/sorting spec/texts"

// allowed says which of our packages each package may import in addition to the leaves. "/*" stands
// for all packages below. Imports run one way: a child never imports its parent but where a
// line says so, and the parts meet only in agent. A package without a line has that of the
// nearest "/*", else that of its parent.
const allowed = `
spec/* reconcile/watch plugins/schema plugins/sandbox plugins/spoollog/* agent/redact api/openapi api/web:
spec:                    spec/*
plugins/sdk/debezium plugins/sdk/writes:
plugins/schema/confluent: plugins/schema
plugins/template plugins/sdk plugins/wire: plugins/schema plugins/sdk plugins/sdk/debezium plugins/sdk/writes plugins/template plugins/wire/*
plugins/spoollog:        plugins/spoollog/*
plugins/connector plugins/sdk/*: plugins/schema plugins/sdk plugins/wire
plugins/exec:            plugins/builtin/exec plugins/wire
plugins/standalone/*:    plugins/wire
plugins/standalone:      plugins plugins/connector plugins/sandbox plugins/schema plugins/sdk plugins/standalone/* plugins/wire plugins/wire/*
plugins/builtin/*:       plugins/builtin/backoff plugins/builtin/connections plugins/builtin/handover plugins/builtin/inbox plugins/builtin/numbers plugins/builtin/recordid plugins/builtin/settings plugins/builtin/ticks plugins/builtin/tlssettings plugins/schema plugins/sdk plugins/spoollog plugins/template
plugins/builtin/http:    plugins/builtin/backoff plugins/builtin/connections plugins/builtin/settings plugins/builtin/tlssettings plugins/charset plugins/processor/jsonvalue plugins/sdk
plugins/builtin/mysql: plugins/builtin/backoff plugins/builtin/handover plugins/builtin/mysql/* plugins/builtin/settings plugins/builtin/sqlsink plugins/builtin/sqlsink/* plugins/builtin/tlssettings plugins/sdk
plugins/builtin/sqlsink: plugins/builtin/backoff plugins/builtin/recordid plugins/sdk plugins/template
plugins/builtin/sqlsink/sqldb: plugins/builtin/sqlsink
plugins/builtin/postgres: plugins/builtin/backoff plugins/builtin/handover plugins/builtin/postgres/* plugins/builtin/settings plugins/builtin/sqlsink plugins/schema plugins/sdk
plugins/builtin/sqlite: plugins/builtin/backoff plugins/builtin/handover plugins/builtin/settings plugins/builtin/sqlite/* plugins/builtin/sqlsink plugins/builtin/sqlsink/* plugins/builtin/ticks plugins/sdk
plugins/builtin/kafka:   plugins/builtin/kafka/* plugins/builtin/recordid plugins/builtin/settings plugins/sdk plugins/template
plugins/builtin/s3:      plugins/builtin/backoff plugins/builtin/recordid plugins/builtin/settings plugins/builtin/s3/* plugins/builtin/tlssettings plugins/sdk plugins/template
plugins/builtin:         plugins/builtin/* plugins/sdk
plugins/processor/*:     plugins/charset plugins/processor/absent plugins/processor/fieldref plugins/processor/httpcall plugins/processor/jsonvalue plugins/schema plugins/sdk plugins/template
plugins/processor/wasm:  plugins/processor/wasm/* plugins/schema plugins/sdk plugins/wire/*
plugins/processor:       plugins/connector plugins/processor/* plugins/schema plugins/sdk plugins/template spec
plugins:                 plugins/connector plugins/schema plugins/sdk
plugins/plugintest plugins/plugintest/*: plugins plugins/connector plugins/plugintest plugins/plugintest/* plugins/schema plugins/sdk plugins/wire/*
plugins/plugintest/protocol: plugins/connector plugins/plugintest plugins/schema plugins/sdk plugins/standalone
plugins/plugintest/chaos: plugins/plugintest/* plugins/sdk plugins/standalone plugins/wire/*
reconcile/*:             reconcile/watch spec
reconcile:               reconcile/plan spec
api/rest:                spec
api/editor:              api/rest
api/client api/jsonhttp api/live: api/rest spec
api/*:                   api/guard api/jsonhttp api/rest spec
api/resource:            api/desired api/editor api/guard api/jsonhttp api/live api/rest spec
api/dlq api/logs: api/desired api/jsonhttp api/resource api/rest spec
api:                     api/* spec
agent/engine/*:          agent/engine/backpressure agent/engine/measure plugins/connector plugins/sdk spec
agent/engine:            agent/engine/* plugins/connector plugins/sdk spec
agent/store/*:           spec
agent/store:             agent/sqlitefile agent/store/* plugins/schema spec
agent/sqlitefile:
agent/prove/disk:
agent/prove:             agent/dryrun agent/prove/disk plugins/processor plugins/sdk plugins/wire spec
agent/maintenance:       agent/deadletters agent/sqlitefile agent/store agent/store/* spec
agent/deadletters:       agent/engine/deadletter agent/sqlitefile api/rest plugins/spoollog/codec spec
agent/poison:            agent/engine plugins/connector
agent/replay:            agent/deadletters agent/engine agent/engine/* api/rest plugins/connector plugins/sdk spec
agent/config:            spec spec/yamldoc
agent/reference:         agent/redact reconcile/watch spec
agent/access:            agent/config agent/host agent/reference api
agent/catalog:           agent/config api/rest plugins plugins/builtin plugins/builtin/exec plugins/builtin/file plugins/processor plugins/processor/wasm plugins/processor/wasm/egress plugins/sandbox plugins/schema plugins/sdk plugins/standalone spec
agent/runner:            agent/catalog agent/engine agent/engine/* agent/poison agent/redact agent/reference plugins plugins/connector plugins/processor reconcile spec
agent/delivery:          agent/engine agent/engine/measure plugins/processor spec
agent/telemetry:         agent/delivery agent/engine agent/engine/* agent/telemetry/metric api api/rest plugins plugins/processor plugins/spoollog reconcile reconcile/files spec
agent/planner:           agent/config agent/store api/rest reconcile/files reconcile/watch spec
agent/dryrun:            api/rest plugins/connector plugins/processor plugins/schema plugins/sdk spec
agent/pipelinetest:      agent/dryrun plugins/processor plugins/template reconcile/watch spec
agent/host:              agent/sqlitefile api/rest reconcile reconcile/files spec
agent/cluster/protocol:
agent/cluster/*:         agent/cluster agent/cluster/protocol plugins/schema spec
agent/cluster/storetest: agent/cluster agent/cluster/protocol plugins/plugintest/*
agent/cluster/declared:  agent/cluster agent/cluster/protocol agent/cluster/terms api/rest spec
agent/cluster/letters:   agent/cluster agent/cluster/protocol agent/deadletters agent/engine/commit agent/engine/deadletter api/rest spec
agent/cluster/versions:  agent/cluster agent/cluster/protocol reconcile spec
agent/cluster/pgkv:      agent/cluster/protocol plugins/builtin/postgres/pg
agent/cluster:           agent/cluster/notice agent/cluster/protocol spec
agent/membership:        agent/access agent/cluster agent/cluster/* agent/config agent/deadletters agent/engine agent/engine/* agent/replay agent/store agent/telemetry api/dlq api/rest plugins/schema reconcile spec
agent/notification:      spec
agent/migrate:           agent/store agent/store/conduitstate api/client api/rest spec
agent:                   agent/* api api/* plugins plugins/schema plugins/schema/confluent plugins/sdk reconcile reconcile/* spec
agent/agenttest agent/agenttest/*: agent agent/agenttest agent/config agent/delivery api/client api/rest plugins/builtin plugins/plugintest/* plugins/record plugins/sdk plugins/wire spec
cmd/conduit/terminal cmd/conduit/logging: cmd/conduit/terminal
cmd/conduit/docs:        . agent/config api/web cmd/conduit/cli cmd/conduit/scaffold plugins/builtin plugins/processor plugins/sdk
cmd/conduit/cli:         agent agent/config api/client api/rest cmd/conduit/terminal plugins plugins/processor plugins/sdk spec
cmd/conduit/*:           agent/* api/client api/rest cmd/conduit/* plugins plugins/processor plugins/processor/examples plugins/sandbox plugins/sdk plugins/sdk/starter plugins/spoollog reconcile/watch spec
cmd/conduit:             agent agent/* api/client api/rest cmd/conduit/* plugins/sandbox spec
`

// homes says which package an outside library lives in. A library that is not listed
// may be imported anywhere.
var homes = map[string][]string{
	"github.com/hashicorp/go-plugin":           {"plugins/wire", "plugins/standalone"},
	"google.golang.org/grpc":                   {"plugins/wire", "plugins/wire/wirepb/*", "plugins/standalone", "plugins/plugintest/chaos"},
	"github.com/mattn/go-sqlite3":              {"agent/store", "agent/deadletters", "agent/sqlitefile", "plugins/builtin/sqlite/file"},
	"database/sql":                             {"agent/store", "agent/store/*", "agent/deadletters", "agent/sqlitefile", "plugins/builtin/mysql", "plugins/builtin/mysql/catalog", "plugins/builtin/sqlite", "plugins/builtin/sqlite/*", "plugins/builtin/sqlsink/sqldb", "plugins/plugintest/sqltest"},
	"github.com/fsnotify/fsnotify":             {"reconcile/watch"},
	"github.com/julienschmidt/httprouter":      {"api"},
	"nhooyr.io/websocket":                      {"api/inspect", "api/client"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas"},
	"github.com/knadh/koanf":                   {"agent/config"},
	"github.com/peterbourgon/ff/v3":            {"cmd/conduit", "cmd/conduit/*"},
	"github.com/twmb/avro":                     {"plugins/schema/avro"},
	"github.com/prometheus/client_golang":      {"agent/telemetry"},
	"github.com/Masterminds/sprig/v3":          {"plugins/template"},
	"github.com/coreos/go-systemd":             {"agent/host", "cmd/conduit"},
	"github.com/klauspost/compress":            {"plugins/zstd", "plugins/builtin/mysql/binlog", "plugins/sdk/starter"},
	"github.com/expr-lang/expr":                {"plugins/processor/expr"},
	"github.com/tetratelabs/wazero":            {"plugins/processor/wasm"},
	"github.com/dop251/goja":                   {"plugins/processor/javascript"},
	"github.com/dlclark/regexp2/v2":            {"plugins/processor/javascript"},
	"golang.org/x/term":                        {"cmd/conduit"},
	"github.com/eclipse/paho.golang":           {"plugins/builtin/mqtt"},
	"github.com/go-sql-driver/mysql":           {"plugins/builtin/mysql"},
	"github.com/jackc/pgx/v5":                  {"plugins/builtin/postgres", "plugins/builtin/postgres/*", "agent/cluster/pgkv"},
	"github.com/gomodule/redigo":               {"plugins/builtin/redis"},
	"github.com/twmb/franz-go":                 {"plugins/builtin/kafka", "plugins/builtin/kafka/batches"},
	"github.com/minio/minio-go/v7":             {"plugins/builtin/s3"},
}

func TestImportsRunOneWay(t *testing.T) {
	table, files := tableOf(t), 0
	// Parse the files instead of calling go list: reading them keeps a cached test result from surviving a changed file.
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
			checkImport(t, table, filepath.ToSlash(dir), imported)
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

// top is the top of the repository.
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

// tableOf returns what each package with a line in allowed may import.
func tableOf(t *testing.T) map[string][]string {
	table := map[string][]string{}
	for line := range strings.SplitSeq("\n"+leaves+":\n"+strings.TrimSpace(allowed), "\n") {
		packages, imports, _ := strings.Cut(line, ":")
		for _, pkg := range strings.Fields(packages) {
			if _, twice := table[pkg]; twice {
				t.Errorf("%s has two lines", pkg)
			}
			table[pkg] = append(strings.Fields(imports), strings.Fields(leaves)...)
		}
	}
	return table
}

// lineOf returns what pkg may import.
func lineOf(table map[string][]string, pkg string) []string {
	if own, ok := table[pkg]; ok {
		return own
	}
	for parent := pkg; parent != ""; {
		parent = parent[:max(0, strings.LastIndex(parent, "/"))]
		if below, ok := table[parent+"/*"]; ok {
			return below
		}
		if of, ok := table[parent]; ok {
			return of
		}
	}
	return nil
}

func checkImport(t *testing.T, table map[string][]string, pkg, imported string) {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		if !includes(lineOf(table, pkg), ours) {
			t.Errorf("%s imports %s, which it may not", pkg, ours)
		}
		return
	}
	for library, places := range homes {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && !includes(places, pkg) {
			t.Errorf("%s imports %s, whose home is %s", pkg, imported, strings.Join(places, ", "))
		}
	}
}

// includes reports whether pkg is one of the packages.
func includes(packages []string, pkg string) bool {
	return slices.ContainsFunc(packages, func(p string) bool {
		below, all := strings.CutSuffix(p, "*")
		return pkg == p || all && strings.HasPrefix(pkg, below)
	})
}
