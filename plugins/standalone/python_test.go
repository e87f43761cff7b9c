package standalone_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/sandbox"
)

// A connector in another language starts and reads when it is confined strictly.
func TestConfinedPython(t *testing.T) {
	if sandbox.Version() == 0 {
		server.Missing(t, "this kernel has no Landlock")
	}
	if out, err := exec.Command("/usr/bin/python3", "-c", "import grpc").CombinedOutput(); err != nil {
		server.Missing(t, "Python with grpcio is not installed (Debian: python3-grpcio): %v: %s", err, out)
	}
	path, err := filepath.Abs("../sdk/example/python/connector.py")
	if err != nil {
		t.Fatal(err)
	}
	given := t.TempDir()
	in := filepath.Join(given, "in")
	if err := os.WriteFile(in, []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	c, _ := client(t, "connector")
	c.Path, c.Sandbox = path, &sandbox.Policy{Strict: true, Read: []string{given}}
	s := openSource(ctx, t, c, map[string]string{"path": in})
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
