package standalone_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/standalone"
)

// A connector served from this process behaves like one in its own process, and leaves nothing behind.
func TestServedFromThisProcess(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx := testContext(t)
	c := &standalone.Client{Connector: &testConnector, Log: slog.New(slog.DiscardHandler)}
	if spec, err := c.Specify(ctx); err != nil || spec.Name != testConnector.Name {
		t.Errorf("specification %+v, %v", spec, err)
	}
	path := filepath.Join(t.TempDir(), "x")
	d, r := openDestination(ctx, t, c, map[string]string{"path": path})
	if err := d.Write(ctx, batch("a", "b")); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n, _, broken := r.get(); n != 2 || broken != nil || d.PID() != 0 {
		t.Errorf("settled %d, %v, process %d", n, broken, d.PID())
	}
	if err := d.Teardown(ctx); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}
