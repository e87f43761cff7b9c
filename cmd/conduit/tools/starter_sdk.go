package tools

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/spec"
)

// sdkFiles returns the files of the SDK, by name: the agent's module, reduced to the packages that plugins import.
var sdkFiles = sync.OnceValues(func() (map[string][]byte, error) {
	files := map[string][]byte{}
	for dir, tree := range map[string]embed.FS{"plugins": plugins.SDKSources, "spec": spec.SDKSources} {
		if err := addSources(files, dir, tree); err != nil {
			return nil, err
		}
	}
	for name, file := range map[string]string{"go.mod": "go.mod.tmpl", "go.sum": "go.sum", "LICENSE": "LICENSE"} {
		content, err := templates.ReadFile("template/sdk/" + file)
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return files, nil
})

// addSources adds the files of a tree, without tests, generators, and the files that embed others.
func addSources(files map[string][]byte, dir string, tree embed.FS) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || d.Name() == "embed.go" {
			return err
		}
		content, err := tree.ReadFile(name)
		if !bytes.HasPrefix(content, []byte("//go:build ignore")) {
			files[path.Join(dir, name)] = content
		}
		return err
	})
}

// WriteSDK writes the SDK to dir as a separate module, and overwrites nothing.
func WriteSDK(dir string) error {
	files, err := sdkFiles()
	if err != nil {
		return fmt.Errorf("cannot read the SDK: %w", err)
	}
	return writeFiles(dir, files)
}

// module is a version of a module.
type module struct{ path, version string }

// requirements returns the modules that the SDK requires.
func requirements() (all []module, err error) {
	files, err := sdkFiles()
	if err != nil {
		return nil, fmt.Errorf("cannot read the SDK: %w", err)
	}
	for line := range strings.Lines(string(files["go.mod"])) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "\t") && len(fields) > 1 { // in a block
			all = append(all, module{fields[0], fields[1]})
		}
	}
	return all, nil
}

// ErrModules is wrapped by the errors of an unusable archive of modules.
var ErrModules = errors.New("not an archive of modules for this version of conduit")

// vendored returns the files of an archive that holds the directory vendor of a plugin. It refuses an archive that was
// made for other versions than the required ones.
func vendored(path string, required []module) (map[string][]byte, error) {
	archive, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read modules: %w", err)
	}
	files, err := unpackModules(archive)
	if err != nil {
		return nil, fmt.Errorf("cannot read modules from %s: %w: %w", path, ErrModules, err)
	}
	list := string(files["vendor/modules.txt"])
	for _, m := range required {
		line := "# " + m.path + " " + m.version
		if !strings.Contains(list, line+"\n") && !strings.Contains(list, line+" => ./sdk\n") {
			return nil, fmt.Errorf("cannot use modules from %s: %w: %s %s is not among them", path, ErrModules, m.path,
				m.version)
		}
	}
	return files, nil
}
