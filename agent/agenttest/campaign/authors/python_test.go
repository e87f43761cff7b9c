package authors

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/protocol"
)

// TestPythonConnector runs the conformance tests of connectors on the one in Python.
func TestPythonConnector(t *testing.T) {
	if out, err := exec.Command("/usr/bin/python3", "-c", "import grpc").CombinedOutput(); err != nil {
		t.Fatalf("Python with grpcio is not installed (Debian: python3-grpcio): %v: %s", err, out)
	}
	path, err := filepath.Abs(filepath.Join(script.Root, "plugins/example/python/connector.py"))
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Run(t, plugintest.Target{
		Start: protocol.Executable(path, nil),
		Source: func(t testing.TB, n int) map[string]string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintln(&b, "line", i)
			}
			in := filepath.Join(t.TempDir(), "in")
			if err := os.WriteFile(in, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			return map[string]string{"path": in}
		},
		Destination: func(t testing.TB) map[string]string {
			return map[string]string{"path": filepath.Join(t.TempDir(), "out")}
		},
		Written: written,
	})
}

func written(t testing.TB, settings map[string]string) (payloads []string) {
	content, err := os.ReadFile(settings["path"])
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var r struct{ After string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("cannot read %q: %v", line, err)
		}
		payloads = append(payloads, r.After)
	}
	return payloads
}
