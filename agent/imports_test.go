package agent_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/conduit-agent/conduit"

// allowed says which of our packages each package may import. Imports run one way: a
// child never imports its parent, and the parts meet only in agent.
var allowed = map[string][]string{
	"spec/yamldoc":   {"spec/pointer"},
	"plugins/record": {}, "spec/spelling": {}, "spec/pointer": {}, "spec/notify": {}, "spec/fingerprint": {}, "schemas": {"spec/pointer"}, "reconcile/watch": {"spec/fingerprint", "spec/notify"}, "agent/agenttest/bench": {},
	"agent/agenttest/bench/connector": {"plugins/builtin", "plugins/builtin/file", "plugins/builtin/generator", "plugins/record", "plugins/sdk", "plugins/wire"},
	"agent/config":                    {"schemas", "spec", "spec/spelling"},
	"plugins/connector":               {"plugins/record", "plugins/sdk"},
	"plugins/schema":                  {"plugins/record"},
	"plugins/sdk":                     {"plugins/record", "plugins/schema", "plugins/template", "spec/spelling"},
	"plugins/template":                {"plugins/record", "plugins/schema"},
	"plugins/wire":                    {"plugins/sdk", "plugins/record", "plugins/schema", "plugins/wire/wirepb"},
	"plugins/wire/wirepb":             {"plugins/wire/wirepb"},
	"plugins/standalone":              {"spec/notify", "plugins/sdk", "plugins/record", "plugins/schema", "plugins/wire", "plugins/wire/wirepb"},
	"plugins/builtin":                 {"plugins/sdk", "plugins/record", "plugins/builtin/generator", "plugins/builtin/log", "plugins/builtin/file"},
	"plugins":                         {"spec/notify", "spec/fingerprint", "plugins/connector", "plugins/sdk", "plugins/standalone", "plugins/builtin", "plugins/record", "plugins/schema", "spec/spelling"},
	"plugins/plugintest":              {"plugins", "plugins/connector", "plugins/sdk", "plugins/standalone", "plugins/record", "plugins/schema"},
	"plugins/sdk/starter":             {}, "plugins/sdk/example": {"plugins/sdk", "plugins/wire", "plugins/record"},
	"plugins/processor/expr":                           {"plugins/processor/fieldref", "plugins/record", "plugins/schema", "plugins/sdk"},
	"plugins/processor/javascript":                     {"plugins/sdk", "plugins/record"},
	"plugins/processor/wasm":                           {"plugins/sdk", "plugins/record", "plugins/schema", "plugins/processor/wasm/wasmpb", "plugins/wire/wirepb"},
	"plugins/processor/wasm/wasmpb":                    {"plugins/wire/wirepb"},
	"plugins/sdk/wasmguest":                            {"plugins/sdk", "plugins/record", "plugins/schema"},
	"plugins/exec":                                     {"plugins/sdk", "plugins/wire", "plugins/record"},
	"plugins/plugintest/chaos":                         {"plugins/connector", "plugins/wire/wirepb"},
	"plugins/plugintest/chaos/conduit-connector-chaos": {"plugins/plugintest/chaos"},
	"spec":                {"plugins/record", "schemas", "spec/pointer", "spec/spelling", "spec/yamldoc"},
	"agent/engine/fair":   {},
	"agent/engine/settle": {"plugins/record"},
	"agent/engine":        {"spec", "spec/notify", "plugins/connector", "plugins/record", "agent/engine/fair", "agent/engine/settle"},
	"agent/store":         {"spec", "plugins/record", "plugins/schema"},
	"reconcile":           {"spec", "spec/notify", "reconcile/plan"}, "reconcile/plan": {"spec"}, "reconcile/files": {"spec", "spec/notify", "reconcile/watch"},
	"api":      {"spec", "plugins/record", "api/rest", "api/openapi", "api/jsonhttp", "api/guard", "api/idempotency", "api/desired", "api/resource", "api/inspect"},
	"api/rest": {"spec"}, "api/jsonhttp": {"spec", "spec/pointer", "spec/spelling", "api/rest"},
	"api/guard":       {"spec/notify", "api/rest", "api/jsonhttp"},
	"api/idempotency": {"spec", "api/rest", "api/jsonhttp", "api/guard"},
	"api/desired":     {"spec", "spec/pointer", "spec/secret", "api/rest", "api/jsonhttp"},
	"api/resource":    {"spec", "spec/spelling", "plugins/record", "api/rest", "api/jsonhttp", "api/guard", "api/desired"},
	"api/inspect":     {"spec", "plugins/record", "api/rest", "api/jsonhttp"},
	"api/openapi":     {}, "api/web": {}, "api/editor": {"api/rest", "schemas"}, "api/live": {"api/rest", "spec"},
	"api/client":      {"spec", "plugins/record", "api/rest"},
	"agent/redact":    {},
	"agent/reference": {"agent/redact", "reconcile/watch", "spec", "spec/fingerprint", "spec/notify"},
	"agent/catalog":   {"agent/config", "plugins", "plugins/builtin", "plugins/schema", "plugins/sdk", "spec", "spec/pointer"},
	"agent/runner":    {"agent/catalog", "agent/engine", "agent/redact", "agent/reference", "plugins", "plugins/connector", "reconcile", "spec"},
	"agent/telemetry": {"agent/engine", "api", "api/rest", "plugins", "reconcile", "reconcile/files", "spec"},
	"agent/planner":   {"agent/config", "agent/store", "api/rest", "reconcile/files", "reconcile/watch", "spec"},
	"agent/host":      {"reconcile", "reconcile/files", "spec", "spec/notify"},
	"agent": {"agent/catalog", "agent/config", "agent/engine", "agent/host", "agent/planner", "agent/redact", "agent/reference", "agent/runner", "agent/store",
		"agent/telemetry", "api", "api/desired", "api/idempotency", "api/resource", "api/rest", "plugins/record", "plugins/schema", "plugins/sdk", "reconcile",
		"reconcile/files", "reconcile/plan", "reconcile/watch", "spec", "spec/notify", "spec/pointer", "agent/engine/fair"},
	"agent/agenttest": {"agent", "agent/config", "spec"}, "agent/agenttest/e2e": {},
	"cmd/conduit": {"agent", "agent/catalog", "agent/config", "agent/host", "agent/planner", "plugins", "api/client", "api/rest", "spec", "schemas", "plugins/sdk", "plugins/sdk/starter", "spec/spelling"},

	// The processors: one package for each family, and their chain.
	"plugins/processor": {"plugins/connector", "plugins/record", "plugins/schema", "plugins/sdk", "plugins/template", "spec", "spec/pointer", "spec/spelling",
		"plugins/processor/codec", "plugins/processor/fields", "plugins/processor/flow", "plugins/processor/unwrap", "plugins/processor/enrich", "plugins/processor/window",
		"plugins/processor/expr", "plugins/processor/javascript", "plugins/processor/webhook", "plugins/processor/ai"},
	"plugins/processor/fieldref":  {"plugins/record", "plugins/schema"},
	"plugins/processor/jsonvalue": {},
	"plugins/processor/codec":     {"plugins/processor/fieldref", "plugins/processor/jsonvalue", "plugins/record", "plugins/schema", "plugins/sdk"},
	"plugins/processor/fields":    {"plugins/processor/fieldref", "plugins/processor/jsonvalue", "plugins/record", "plugins/schema", "plugins/sdk", "plugins/template"},
	"plugins/processor/flow":      {"plugins/processor/fieldref", "plugins/record", "plugins/schema", "plugins/sdk", "plugins/template"},
	"plugins/processor/unwrap":    {"plugins/processor/fieldref", "plugins/processor/jsonvalue", "plugins/record", "plugins/schema", "plugins/sdk"},
	"plugins/processor/enrich":    {"plugins/processor/fieldref", "plugins/processor/jsonvalue", "plugins/record", "plugins/schema", "plugins/sdk", "plugins/template"},
	"plugins/processor/window":    {"plugins/processor/fieldref", "plugins/record", "plugins/schema", "plugins/sdk"},
}

// homes says which package an outside library lives in. A library that is not listed
// may be imported anywhere.
var homes = map[string][]string{
	"github.com/hashicorp/go-plugin":           {"plugins/wire", "plugins/standalone"},
	"google.golang.org/grpc":                   {"plugins/wire", "plugins/wire/wirepb", "plugins/standalone", "plugins/plugintest/chaos"},
	"github.com/mattn/go-sqlite3":              {"agent/store"},
	"database/sql":                             {"agent/store"},
	"github.com/fsnotify/fsnotify":             {"reconcile/watch"},
	"github.com/julienschmidt/httprouter":      {"api"},
	"nhooyr.io/websocket":                      {"api/inspect", "api/client"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas"},
	"github.com/knadh/koanf":                   {"agent/config"},
	"github.com/peterbourgon/ff/v3":            {"cmd/conduit"},
	"github.com/twmb/avro":                     {"plugins/schema"},
	"github.com/prometheus/client_golang":      {"agent/telemetry"},
	"github.com/Masterminds/sprig/v3":          {"plugins/template"},
	"github.com/coreos/go-systemd":             {"agent/host", "cmd/conduit"},
	"github.com/expr-lang/expr":                {"plugins/processor/expr"},
	"github.com/tetratelabs/wazero":            {"plugins/processor/wasm"},
	"github.com/dop251/goja":                   {"plugins/processor/javascript"},
	"github.com/dlclark/regexp2/v2":            {"plugins/processor/javascript"},
	"golang.org/x/term":                        {"cmd/conduit"},
}

func TestImportsRunOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...").Output()
	if err != nil {
		t.Fatalf("cannot list packages: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 10 {
		t.Fatalf("only %d packages listed", len(lines))
	}
	for _, line := range lines {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/")
		for _, imported := range fields[1:] {
			checkImport(t, pkg, imported)
		}
	}
}

func checkImport(t *testing.T, pkg, imported string) {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		parent, known := pkg, false
		for !known && parent != "" { // a package that is not listed is held to its parent's line
			if _, known = allowed[parent]; !known {
				parent = parent[:max(0, strings.LastIndex(parent, "/"))]
			}
		}
		if !covers(allowed[parent], ours) {
			t.Errorf("%s imports %s, which it may not", pkg, ours)
		}
		return
	}
	for library, places := range homes {
		if (imported == library || strings.HasPrefix(imported, library+"/")) && !covers(places, pkg) {
			t.Errorf("%s imports %s, whose home is %s", pkg, imported, strings.Join(places, ", "))
		}
	}
}

// covers reports whether pkg is one of the packages, or lies below one that is all
// generated code.
func covers(packages []string, pkg string) bool {
	return slices.ContainsFunc(packages, func(p string) bool {
		return pkg == p || strings.HasSuffix(p, "pb") && strings.HasPrefix(pkg, p+"/")
	})
}
