//go:build ignore

// Gather packs the sources of the SDK into sdk.tar.zst, as a separate module. With the arguments DIR FILE it packs a
// directory into FILE.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/modfile"
)

const (
	repository = "../../.."
	module     = "github.com/conduit-agent/conduit"
)

// roots are the packages that plugins import.
var roots = []string{module + "/plugins/plugintest", module + "/plugins/plugintest/protocol", module + "/plugins/sdk", module + "/plugins/sdk/wasmguest", module + "/plugins/wire"}

func main() {
	log.SetFlags(0)
	if len(os.Args) == 3 {
		check(os.WriteFile(os.Args[2], pack(directory(os.Args[1])), 0o644))
		return
	}
	packages, modules := dependencies()
	files := map[string][]byte{"LICENSE": read("LICENSE"), "plugins/sdk/README.md": read("plugins/sdk/README.md")}
	for _, dir := range packages {
		sources(files, dir)
	}
	files["go.mod"] = goMod(modules)
	files["go.sum"] = goSum(modules)
	check(os.WriteFile("sdk.tar.zst", pack(files), 0o644))
}

// dependencies returns the directories of the agent's packages that plugins need, and the modules of the other
// packages, on every system that plugins are built for.
func dependencies() (packages []string, modules map[string]bool) {
	dirs := map[string]bool{}
	modules = map[string]bool{}
	for _, system := range []string{"linux amd64", "darwin arm64", "windows amd64", "wasip1 wasm"} {
		goos, goarch, _ := strings.Cut(system, " ")
		list := exec.Command("go", "list", "-deps", "-e", "-f", "{{with .Module}}{{.Path}} {{$.ImportPath}}{{end}}")
		list.Args = append(list.Args, roots...)
		if goos == "wasip1" {
			list.Args = append(list.Args[:len(list.Args)-len(roots)], module+"/plugins/sdk/wasmguest")
		}
		list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=")
		list.Stderr = os.Stderr
		out, err := list.Output()
		check(err)
		for line := range strings.Lines(string(out)) {
			of, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if of == module {
				dirs[strings.TrimPrefix(name, module+"/")] = true
			} else if of != "" {
				modules[of] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(dirs)), modules
}

// sources adds the Go files of a package, without tests and generators.
func sources(files map[string][]byte, dir string) {
	entries, err := os.ReadDir(filepath.Join(repository, dir))
	check(err)
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if content := read(name); !bytes.HasPrefix(content, []byte("//go:build ignore")) {
			files[name] = content
		}
	}
}

// goMod returns the go.mod file of the SDK: the repository's file, with these modules only.
func goMod(modules map[string]bool) []byte {
	f, err := modfile.Parse("go.mod", read("go.mod"), nil)
	check(err)
	sdk := &modfile.File{}
	check(sdk.AddModuleStmt(module))
	check(sdk.AddGoStmt(f.Go.Version))
	for _, r := range f.Require {
		if modules[r.Mod.Path] {
			sdk.AddNewRequire(r.Mod.Path, r.Mod.Version, r.Indirect)
			delete(modules, r.Mod.Path)
		}
	}
	if len(modules) > 0 {
		log.Fatalf("go.mod does not require %v", slices.Collect(maps.Keys(modules)))
	}
	for _, r := range sdk.Require {
		modules[r.Mod.Path] = true
	}
	out, err := sdk.Format()
	check(err)
	return out
}

// goSum returns the checksums of the modules, and of all go.mod files, because Go reads some of them to select
// versions.
func goSum(modules map[string]bool) []byte {
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(read("go.sum")))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); modules[fields[0]] || strings.HasSuffix(fields[1], "/go.mod") {
			out.WriteString(lines.Text() + "\n")
		}
	}
	return out.Bytes()
}

// directory returns the files below a directory. Their names begin with the directory.
func directory(dir string) map[string][]byte {
	files := map[string][]byte{}
	check(filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(filepath.Dir(dir), name)
		check(err)
		files[filepath.ToSlash(below)], err = os.ReadFile(name)
		return err
	}))
	return files
}

// pack returns an archive. The same files always give the same archive.
func pack(files map[string][]byte) []byte {
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		check(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}))
		_, err := w.Write(files[name])
		check(err)
	}
	check(w.Close())
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	check(err)
	return e.EncodeAll(plain.Bytes(), nil)
}

func read(name string) []byte {
	content, err := os.ReadFile(filepath.Join(repository, name))
	check(err)
	return content
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
