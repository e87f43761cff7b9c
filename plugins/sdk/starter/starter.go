// Package starter writes the folder that a new connector or processor begins with.
package starter

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed template
var templates embed.FS

// Kind says what a plugin is.
type Kind string

// The kinds. Their texts are the names of the folders of templates.
const (
	Connector Kind = "connector" // an executable
	Processor Kind = "processor" // a WebAssembly module
)

// Plugin is a plugin to be.
type Plugin struct {
	Kind    Kind
	Name    string // of the plugin and its module: letters, digits, '-', '_' and '.'
	Version string // of the module with package sdk that it requires
	Replace string // directory to use instead of that module; empty: none
}

// Files returns the content of the files to write, by name.
func (p Plugin) Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, dir := range []string{"template", "template/" + string(p.Kind)} {
		if err := p.addFiles(files, dir); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// addFiles adds the files that the templates in dir make.
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

// Write writes the files to dir, which is made if need be. It overwrites nothing: when
// one of them exists, it writes none.
func (p Plugin) Write(dir string) error {
	files, err := p.Files()
	if err != nil {
		return fmt.Errorf("cannot make the files of %s %s: %w", p.Kind, p.Name, err)
	}
	for name := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot write %s: %w", filepath.Join(dir, name), errors.Join(err, fs.ErrExist))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make directory: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("cannot write file: %w", err)
		}
	}
	return nil
}
