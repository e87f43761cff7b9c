package processors

import (
	"os/exec"
	"strings"
	"testing"
)

// TestMinimalBuild checks that a minimal build reports the features that it lacks. It links seven test programs.
func TestMinimalBuild(t *testing.T) {
	packages := []string{"./javascript", "./wasm", "./expr", "./ai", "../template", "../schema/avro", "../builtin/file"}
	cmd := exec.Command("go",
		append([]string{"test", "-trimpath", "-ldflags=-w", "-tags", "minimal", "-run", "^TestMinimal"}, packages...)...)
	cmd.Dir = "../../../../plugins/processor"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A minimal build has no JavaScript engine, no WebAssembly runtime, no expressions and not all
// functions of templates.
func TestMinimalBuildHasNoLibraries(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-tags", "minimal", "github.com/conduit-agent/conduit/cmd/conduit").CombinedOutput()
	if err != nil {
		t.Fatalf("cannot list packages: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "plugins/processor/javascript") {
		t.Fatal("the agent does not have the package at all")
	}
	for _, library := range []string{"github.com/dop251/goja", "github.com/tetratelabs/wazero", "github.com/dlclark/regexp2", "github.com/expr-lang/expr", "github.com/Masterminds/sprig", "github.com/nats-io/nats.go", "github.com/klauspost/compress", "golang.org/x/mod/modfile", "/agent/cluster/protocol", "github.com/twmb/avro"} {
		if strings.Contains(string(out), library) {
			t.Errorf("a minimal build has %s", library)
		}
	}
}
