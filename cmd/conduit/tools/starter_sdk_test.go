package tools_test

import (
	"bytes"
	"errors"
	"flag"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/conduit-agent/conduit/cmd/conduit/tools"
)

var update = flag.Bool("update", false, "rewrite the example and the modules of the SDK")

const repository = "../../.."

// imported are the packages that plugins import.
var imported = []string{
	"plugins/plugintest", "plugins/plugintest/protocol", "plugins/sdk", "plugins/sdk/wasmguest", "plugins/wire",
}

// The SDK has the packages that plugins import, those that these import, and no others. Its go.mod has the modules of
// all other packages.
func TestSDKIsComplete(t *testing.T) {
	dir := t.TempDir()
	if err := tools.WriteSDK(dir); err != nil {
		t.Fatal(err)
	}
	if err := tools.WriteSDK(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	modules := parse(t, filepath.Join(dir, "go.mod"))
	needed := slices.Clone(imported)
	for i := 0; i < len(needed); i++ {
		files, err := filepath.Glob(filepath.Join(dir, needed[i], "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("the SDK lacks %s: add it to embed.go of plugins or spec (%v)", needed[i], err)
		}
		for _, file := range files {
			for _, name := range imports(t, file) {
				below, ours := strings.CutPrefix(name, tools.Module+"/")
				switch {
				case ours && !slices.Contains(needed, below):
					needed = append(needed, below)
				case !ours && strings.Contains(name, ".") &&
					!slices.ContainsFunc(modules.Require, func(r *modfile.Require) bool {
						return name == r.Mod.Path || strings.HasPrefix(name, r.Mod.Path+"/")
					}):
					t.Errorf("%s imports %s: add its module to template/sdk/go.mod.tmpl",
						strings.TrimPrefix(file, dir+"/"), name)
				}
			}
		}
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if path.Ext(name) == ".go" && !slices.Contains(needed, path.Dir(name)) {
			t.Errorf("no plugin needs %s: remove it from embed.go", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func imports(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func parse(t *testing.T, name string) *modfile.File {
	t.Helper()
	f, err := modfile.Parse(name, read(t, name), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The SDK has the modules of the repository in the same versions, with their checksums. Packages of the agent cannot
// embed the files at the top of the repository.
func TestModulesAreTheRepositorys(t *testing.T) {
	agent, sdk := parse(t, repository+"/go.mod"), parse(t, "template/sdk/go.mod.tmpl")
	sums := ""
	for _, r := range sdk.Require {
		i := slices.IndexFunc(agent.Require, func(a *modfile.Require) bool { return a.Mod.Path == r.Mod.Path })
		if i < 0 {
			t.Fatalf("the agent does not require %s: remove it from template/sdk/go.mod.tmpl", r.Mod.Path)
		}
		if err := sdk.AddRequire(r.Mod.Path, agent.Require[i].Mod.Version); err != nil {
			t.Fatal(err)
		}
	}
	if err := sdk.AddGoStmt(agent.Go.Version); err != nil {
		t.Fatal(err)
	}
	mod, err := sdk.Format()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		defer tidySums(t)
	}
	for line := range strings.Lines(string(read(t, repository+"/go.sum"))) {
		fields := strings.Fields(line)
		if slices.ContainsFunc(sdk.Require, func(r *modfile.Require) bool {
			return fields[0] == r.Mod.Path && strings.TrimSuffix(fields[1], "/go.mod") == r.Mod.Version
		}) {
			sums += line
		}
	}
	have := string(read(t, "template/sdk/go.sum"))
	for line := range strings.Lines(sums) {
		if !*update && !strings.Contains("\n"+have, "\n"+line) {
			t.Errorf("template/sdk/go.sum lacks %sof the repository: run go test ./cmd/conduit/tools -update", line)
		}
	}
	for name, want := range map[string][]byte{"go.mod.tmpl": mod, "LICENSE": read(t, repository+"/LICENSE")} {
		name = "template/sdk/" + name
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(read(t, name), want) {
			t.Errorf("%s is not that of the repository: run go test ./cmd/conduit/tools -update", name)
		}
	}
}

// tidySums writes the checksums that 'go mod tidy' leaves in a new connector, which imports more of the SDK than a
// processor: those of packages, and those that tools need to list the modules.
func tidySums(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	if err := (tools.Plugin{Kind: tools.ConnectorPlugin, Name: "mine", Version: "v0.0.0"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "tidy")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	if err := os.WriteFile("template/sdk/go.sum", read(t, filepath.Join(dir, "go.sum")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An unusable archive is refused before anything is written.
func TestWrongModules(t *testing.T) {
	here := t.TempDir()
	for name, content := range map[string]string{"text": "modules", "other": "(\xb5/\xfd\x00"} {
		archive, dir := filepath.Join(here, name), filepath.Join(here, "of-"+name)
		if err := os.WriteFile(archive, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := tools.Plugin{Kind: tools.ConnectorPlugin, Name: "mine", Version: "v0.0.0", Modules: archive}.Write(dir)
		if !errors.Is(err, tools.ErrModules) || !strings.Contains(err.Error(), path.Join(here, name)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the directory was made: %v", name, err)
		}
	}
}
