package catalog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
)

// files changes to a new directory with files of an agent, other files, and links to both.
func files(t *testing.T) (root string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"data", "data/sub", "database", "agent", "other"} {
		must(os.Mkdir(dir, 0o755))
	}
	for _, file := range []string{"data/in", "agent/conduit.db", "agent/conduit.db-wal",
		"agent/conduit.db.dead-letters", "agent/token", "other/secret"} {
		must(os.WriteFile(file, nil, 0o600))
	}
	must(os.Symlink(filepath.Join(root, "other"), "data/out"))
	must(os.Symlink("../other/new", "data/dangling"))
	must(os.Symlink("in", "data/inside"))
	must(os.Symlink("loop", "data/loop"))
	must(os.Symlink("../agent/token", "other/link"))
	must(os.Link("agent/conduit.db-wal", "data/hard"))
	must(os.Link("agent/conduit.db.dead-letters", "data/dead-letters"))
	must(os.Symlink("data", "alias"))
	return root
}

func TestPaths(t *testing.T) {
	root := files(t)
	own := []string{"agent/token"}
	listed := &catalog.Paths{Allowed: []string{filepath.Join(root, "alias"), "agent", "single.log"}, Own: own,
		Store: "agent/conduit.db"}
	free := &catalog.Paths{Own: own, Store: "agent/conduit.db"}
	for _, c := range []struct {
		path         string
		listed, free bool
	}{
		{"data/in", true, true},
		{filepath.Join(root, "data", "sub", "new", "deep"), true, true},
		{"data", true, true},
		{"data/inside", true, true},
		{"single.log", true, true},
		{"single.log.1", false, true},
		{"database/x", false, true},
		{"data/../other/secret", false, true},
		{"data/out/secret", false, true},
		{"data/out/new", false, true},
		{"data/dangling", false, true},
		{"data/loop", false, false},
		{"other/secret", false, true},
		{"data/out/../agent/token", false, false},
		{"data/out/../other/secret", false, true},
		{"data/out/../data/in", true, true},
		{"data/missing/../../other/secret", false, true},
		{"data/missing/../in", true, true},
		{"/etc/passwd", false, true},
		{"agent/mine", true, true},
		{"agent/conduit.db", false, false},
		{"agent/conduit.db-wal", false, false},
		{"agent/conduit.db.processors/p/x", false, false},
		{"agent/token", false, false},
		{"agent/token-of-a-pipeline", true, true},
		{"other/link", false, false},
		{"data/hard", false, false},
		{"data/dead-letters", false, false},
		{"/proc/self/environ", false, false},
		{"/proc/1/task/1/mem", false, false},
		{"/proc/self/root" + root + "/agent/token", false, false},
	} {
		if err := listed.Check(c.path); (err == nil) != c.listed {
			t.Errorf("with a list, %s: %v", c.path, err)
		}
		if err := free.Check(c.path); (err == nil) != c.free {
			t.Errorf("without a list, %s: %v", c.path, err)
		}
	}
	if err := listed.Check("/etc/passwd"); err == nil || !strings.Contains(err.Error(), "pipelines.allowed-paths") {
		t.Errorf("the error does not say what to set: %v", err)
	}
	var none catalog.Paths
	if err := none.Check("agent/token"); err != nil {
		t.Errorf("without anything: %v", err)
	}
	p := &catalog.Paths{Credentials: []string{"admin"}}
	if p.CheckCredential("admin") == nil || p.CheckCredential("db") != nil {
		t.Error("credentials are not distinguished")
	}
}
