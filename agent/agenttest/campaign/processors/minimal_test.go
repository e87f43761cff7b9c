package processors

import (
	"os/exec"
	"testing"
)

// What a minimal build is without says so: seven test programs are linked.
func TestMinimalBuild(t *testing.T) {
	packages := []string{"./javascript", "./wasm", "./expr", "./ai", "../template", "../schema/avro", "../builtin/file"}
	cmd := exec.Command("go", append([]string{"test", "-trimpath", "-ldflags=-w", "-tags", "minimal", "-run", "^TestMinimal"}, packages...)...)
	cmd.Dir = "../../../../plugins/processor"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
