package tools

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"text/template"
)

//go:embed template
var templates embed.FS

// Module is the path of the agent's module, which contains the SDK.
const Module = "github.com/conduit-agent/conduit"

// PluginKind is the kind of a plugin.
type PluginKind string

// The kinds. Their texts are the names of the template folders.
const (
	ConnectorPlugin PluginKind = "connector" // an executable
	ProcessorPlugin PluginKind = "processor" // a WebAssembly module
)

// Plugin describes a plugin to create.
type Plugin struct {
	Kind    PluginKind
	Name    string // name of the plugin and its module: letters, digits, '-', '_' and '.'
	Version string // required version of the module with package sdk
	Replace string // directory that replaces the module; empty: a copy in the directory sdk
	Modules string // archive to fill the directory vendor from; empty: none, Go downloads modules
}

// Files returns the content of the files to write, by name.
func (p Plugin) Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, dir := range []string{"template", "template/" + string(p.Kind)} {
		if err := p.addFiles(files, dir); err != nil {
			return nil, err
		}
	}
	if err := p.addModules(files); err != nil {
		return nil, err
	}
	return files, nil
}

// addModules adds the modules that the plugin needs.
func (p Plugin) addModules(files map[string][]byte) error {
	sdk, err := sdkFiles()
	if err != nil {
		return fmt.Errorf("cannot read the SDK: %w", err)
	}
	files["go.sum"] = sdk["go.sum"]
	if p.Replace == "" {
		for name, content := range sdk {
			files["sdk/"+name] = content
		}
	}
	if p.Modules == "" {
		return nil
	}
	required, err := requirements()
	if err != nil {
		return err
	}
	vendor, err := vendored(p.Modules, append(required, module{Module, p.Version}))
	maps.Copy(files, vendor)
	return err
}

// Requirements returns the modules that the SDK requires, as lines of a go.mod file, sorted as by 'go mod tidy'.
// Templates call it.
func (p Plugin) Requirements() (lines []string, err error) {
	required, err := requirements()
	for _, m := range required {
		lines = append(lines, m.path+" "+m.version)
	}
	slices.Sort(lines)
	return lines, err
}

// addFiles adds the files generated from the templates in dir.
func (p Plugin) addFiles(files map[string][]byte, dir string) error {
	entries, err := fs.ReadDir(templates, dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		t, err := template.ParseFS(templates, dir+"/"+entry.Name())
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, p); err != nil {
			return err
		}
		files[strings.TrimSuffix(entry.Name(), ".tmpl")] = b.Bytes()
	}
	return nil
}

// Write writes the files to dir, and creates dir if necessary. It overwrites nothing: if a file exists, it writes
// none.
func (p Plugin) Write(dir string) error {
	files, err := p.Files()
	if err != nil {
		return fmt.Errorf("cannot create the files of %s %s: %w", p.Kind, p.Name, err)
	}
	return writeFiles(dir, files)
}
