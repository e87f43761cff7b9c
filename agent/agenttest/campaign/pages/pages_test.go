package pages

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

const root = "../../../.."

// stand is the starting point of the reader of a page.
type stand struct {
	checkout bool     // in a checkout, otherwise in an empty directory
	before   []string // previous commands
	replace  []string // the reader's values for placeholders, as pairs of old and new
}

// readers are the pages with commands. Every reader has an empty directory and the conduit on PATH.
var readers = map[string]stand{
	"README.md": {checkout: true},
	"api/README.md": {before: []string{"conduit run"},
		replace: []string{"http://localhost:8080", "http://$CONDUIT_API_HTTP_ADDRESS"}},
	"plugins/README.md":          {},
	"cmd/conduit/docs/ACCESS.md": {before: []string{"conduit init"}},
	"cmd/conduit/docs/BACKUP.md": {before: []string{"conduit init", "conduit pipelines init", "conduit run",
		"conduit reload --wait"}},
	"cmd/conduit/docs/CHANGES.md": {
		before:  []string{"conduit init", "conduit run", "redis-server --port 16379 --save '' >redis.log &"},
		replace: []string{"-p 6379", "-p 16379", "127.0.0.1:6379", "127.0.0.1:16379"}},
	"cmd/conduit/docs/CONTAINERLOGS.md": {before: []string{"conduit init", "conduit run"}},
	"cmd/conduit/docs/CSV.md":           {before: []string{"conduit init", "conduit run"}},
	"cmd/conduit/docs/GITOPS.md":        {},
	"cmd/conduit/docs/METRICS.md":       {},
	"cmd/conduit/docs/OPERATING.md":     {},
	"cmd/conduit/docs/ROUTING.md":       {before: []string{"conduit init", "conduit run"}},
	"cmd/conduit/docs/SENSORS.md":       {before: []string{"conduit init", "conduit run"}},
	"cmd/conduit/docs/WEBLOGS.md":       {before: []string{"conduit init", "conduit run"}},
	"plugins/builtin/exec/README.md":    {checkout: true},
	"plugins/processor/README.md": {before: []string{
		"conduit plugins init name --processor && cd name",
	}},
	"plugins/example/README.md":        {before: []string{"conduit plugins init example && cd example"}},
	"plugins/example/python/README.md": {before: []string{"conduit init"}},
}

// elsewhere are the pages whose commands need another machine, and the tests that execute them.
var elsewhere = map[string]string{
	"cmd/conduit/docs/INSTALL.md":  "TestPackage",              // root and systemd as process 1
	"cmd/conduit/docs/DEPLOY.md":   "TestDocumentedDeployment", // an agent whose files a tool deploys
	"cmd/conduit/docs/SECURITY.md": "TestReleaseIsVerified",    // a signed release
	"cmd/conduit/docs/START.md":    "TestPages",                // a part of README.md
}

// TestPages executes the command blocks of every page, in the order of the page and in one terminal. A comment "# →
// text" is the expected output of the command.
func TestPages(t *testing.T) {
	bin := build(t)
	for path, test := range elsewhere {
		if out, err := exec.Command("grep", "-rq", "--include=*_test.go", "^func "+test+"(",
			root).CombinedOutput(); err != nil {
			t.Errorf("there is no %s that could execute %s: %v %s", test, path, err, out)
		}
	}
	for _, path := range documents(t) {
		blocks := commandBlocks(t, path)
		if found := otherFence.FindString(read(t, path)); found != "" {
			t.Errorf("%s has commands that no test executes: begin their block with ```sh at the margin, not with %q",
				path, found)
		}
		reader, ok := readers[path]
		switch {
		case ok && len(blocks) == 0:
			t.Errorf("%s has no commands and is in the table of readers", path)
		case !ok && len(blocks) > 0 && elsewhere[path] == "":
			t.Errorf("%s has commands that no test executes", path)
		case ok:
			t.Run(strings.TrimSuffix(path, ".md"), func(t *testing.T) {
				load.Parallel(t, 2*load.Agent) // and builds
				newTerminal(t, bin, reader).execute(path, blocks)
			})
		}
	}
}

// documents lists the pages of the documentation.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "template"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			paths = append(paths, strings.TrimPrefix(path, root+"/"))
		}
		return nil
	})
	if err != nil || !slices.Contains(paths, "README.md") {
		t.Fatalf("cannot find the pages: %v, %v", paths, err)
	}
	return paths
}

// build builds the binary that readers have on their PATH.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := built.Binary(filepath.Join(dir, "conduit"), "github.com/conduit-agent/conduit/cmd/conduit"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCommandsExist checks that every command that a page names exists.
func TestCommandsExist(t *testing.T) {
	load.Parallel(t, load.Agent)
	bin := build(t)
	named := map[string]string{} // command → page
	for _, path := range documents(t) {
		for _, words := range namedCommands(t, path) {
			named[words] = path
		}
	}
	if len(named) < 30 {
		t.Fatalf("only %d commands are named: %v", len(named), named)
	}
	for words, path := range named {
		out, err := exec.Command(filepath.Join(bin, "conduit"),
			append(strings.Fields(words), "--help")...).CombinedOutput()
		if err != nil {
			t.Errorf("%s names 'conduit %s': %v\n%s", path, words, err, out)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
