package binary

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
)

// Every command waits for the initialization of all packages, so deferrable work, such as compiling regular
// expressions, is deferred (see package lazy). Most of the remaining allocations are registrations of protobuf.
func TestStartAllocatesLittle(t *testing.T) {
	cmd := exec.Command(filepath.Join(script.Binaries(t), "conduit"), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const each, all = 80_000, 450_000
	sum, most := 0, strings.Builder{}
	for _, m := range regexp.MustCompile(
		`(?m)^init github.com/conduit-agent/conduit/(\S+) .* clock, (\d+) bytes,`).FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if sum += n; n > each {
			t.Errorf("%s allocates %d bytes before main, want %d at most", m[1], n, each)
		}
		if n > each/10 {
			most.WriteString("\n" + string(m[0]))
		}
	}
	if sum == 0 || sum > all {
		t.Errorf("our packages allocate %d bytes before main, want some and %d at most:%s", sum, all, most.String())
	}
}
