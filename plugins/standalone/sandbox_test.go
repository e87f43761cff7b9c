package standalone_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

// A strictly confined connector works: it serves its socket and receives its schemas.
func TestConfinedSource(t *testing.T) {
	registry := &schema.Memory{}
	ctx := testContext(t)
	c, _ := client(t, "connector")
	c.Sandbox, c.Schemas = &sandbox.Policy{Strict: true}, &standalone.SchemaServer{Registry: registry}
	if sandbox.Version() == 0 {
		wantLandlock(t, c)
		return
	}
	if spec, err := c.Specify(ctx); err != nil || spec.Name != "test" {
		t.Fatalf("specification %v, %v", spec, err)
	}
	acks := filepath.Join(t.TempDir(), "acks")
	s := openSource(ctx, t, c, map[string]string{"count": "3", "structured": "true", "acks": acks})
	b, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Get(ctx, "pipe:src:payload", 1); err != nil {
		t.Errorf("its schema: %v", err)
	}
	// The source writes acknowledged positions to a file outside its permitted paths.
	_ = s.Ack(ctx, []record.Position{b.Position(0)})
	wait.For(t, "the source fails", func() bool { _, err = s.Read(ctx); return err != nil })
	if !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("it wrote to %s: %v", acks, err)
	}
}

// A strictly confined destination cannot write to a relative path, which would name a file that is deleted at its end.
func TestConfinedDestinationWithARelativePath(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	c.Sandbox = &sandbox.Policy{Strict: true}
	if sandbox.Version() == 0 {
		wantLandlock(t, c)
		return
	}
	d, r := openDestination(ctx, t, c, map[string]string{"path": "out"})
	if err := d.Write(ctx, batch("a")); err != nil {
		t.Fatal(err)
	}
	_ = d.Flush(ctx)
	if n, refused, broken := r.get(); n == 1 && len(refused) == 0 && broken == nil {
		t.Error("it wrote to a file that nobody finds")
	}
}

// wantLandlock checks that a connector does not start on a kernel without Landlock, for that reason.
func wantLandlock(t *testing.T, c *standalone.Client) {
	t.Helper()
	if _, err := c.Specify(testContext(t)); err == nil || !strings.Contains(err.Error(), "does not support Landlock") {
		t.Errorf("without Landlock: error %v", err)
	}
}

// With permitted paths a destination writes to these paths only.
func TestConfinedDestination(t *testing.T) {
	ctx := testContext(t)
	given, other := t.TempDir(), t.TempDir()
	if sandbox.Version() == 0 {
		c, _ := client(t, "connector")
		c.Sandbox = &sandbox.Policy{Write: []string{given}}
		wantLandlock(t, c)
		return
	}
	for _, dir := range []string{given, other} {
		c, _ := client(t, "connector")
		c.Sandbox = &sandbox.Policy{Write: []string{given}}
		d, r := openDestination(ctx, t, c, map[string]string{"path": filepath.Join(dir, "out")})
		if err := d.Write(ctx, batch("a")); err != nil {
			t.Fatal(err)
		}
		_ = d.Flush(ctx)
		n, refused, broken := r.get()
		if wrote := n == 1 && len(refused) == 0 && broken == nil; wrote != (dir == given) {
			t.Errorf("in %s: settled %d, refused %v, %v", dir, n, refused, broken)
		}
	}
}
