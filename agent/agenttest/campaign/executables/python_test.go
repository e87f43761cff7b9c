package executables_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/protocol"
	"github.com/conduit-agent/conduit/plugins/sandbox"
)

// A connector in another language starts and reads when it is confined strictly.
func TestConfinedPython(t *testing.T) {
	load.Parallel(t, load.Agent)
	if sandbox.Version() == 0 {
		t.Fatal("this kernel has no Landlock")
	}
	path := python(t)
	given := t.TempDir()
	in := filepath.Join(given, "in")
	if err := os.WriteFile(in, []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	c, _ := client(t, "")
	c.Path, c.Sandbox = path, &sandbox.Policy{Strict: true, Read: []string{given}}
	s, err := c.Source(ctx, "pipe:src")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.Background()) })
	if err := errors.Join(s.Configure(ctx, map[string]string{"path": in}), s.Open(ctx, nil)); err != nil {
		t.Fatal(err)
	}
	b, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	records, err := b.Records()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := records[0].After.Raw(); string(got) != "a line" {
		t.Errorf("it reads %q", got)
	}
}

// python returns the path of the example that is written in Python.
func python(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import grpc").CombinedOutput(); err != nil {
		t.Fatalf("Python with grpcio is not installed (Debian: python3-grpcio): %v: %s", err, out)
	}
	path, err := filepath.Abs("../../../../plugins/sdk/example/python/connector.py")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPythonConnector checks the connector as any other is checked.
func TestPythonConnector(t *testing.T) {
	path := python(t)
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
