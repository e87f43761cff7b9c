// Package starter writes the folder that a new connector begins with.
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

// Connector is a connector to be.
type Connector struct {
	Name    string // of the connector and its module: letters, digits, '-', '_' and '.'
	Version string // of the module with package sdk that it requires
	Replace string // directory to use instead of that module; empty: none
}

// Files returns the content of the files to write, by name.
func (c Connector) Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(templates, "template", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		t, err := template.ParseFS(templates, path)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, c); err != nil {
			return err
		}
		files[strings.TrimSuffix(filepath.Base(path), ".tmpl")] = b.Bytes()
		return nil
	})
	return files, err
}

// Write writes the files to dir, which is made if need be. It overwrites nothing: when
// one of them exists, it writes none.
func (c Connector) Write(dir string) error {
	files, err := c.Files()
	if err != nil {
		return fmt.Errorf("cannot make the files of connector %s: %w", c.Name, err)
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
