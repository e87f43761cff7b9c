package executables_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/sandbox"
)

// A connector in another language starts and reads in the strict sandbox.
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

// python returns the path of the Python example.
func python(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import grpc").CombinedOutput(); err != nil {
		t.Fatalf("Python with grpcio is not installed (Debian: python3-grpcio): %v: %s", err, out)
	}
	path, err := filepath.Abs("../../../../plugins/example/python/connector.py")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
