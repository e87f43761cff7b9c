package tools

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/plugins/zstd"
)

// maxUnpacked is the maximum size of the content of an archive, in bytes.
const maxUnpacked = 64 << 20

// unpackModules returns the files of a tar archive that is compressed with Zstandard, by name.
func unpackModules(archive []byte) (map[string][]byte, error) {
	z, err := zstd.NewReader(bytes.NewReader(archive), maxUnpacked)
	if err != nil {
		return nil, fmt.Errorf("cannot decompress: %w", err)
	}
	defer func() { _ = z.Close() }()
	files := map[string][]byte{}
	r := tar.NewReader(io.LimitReader(z, maxUnpacked))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the archive: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue // directories have names only
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("cannot read %s in the archive: %w", header.Name, err)
		}
	}
}

// writeFiles writes files to dir and nowhere else, scripts as executables, and creates dir if necessary. If an entry to
// write at the top of dir exists, it writes nothing and the error wraps fs.ErrExist.
func writeFiles(dir string, files map[string][]byte) error {
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		if _, err := os.Lstat(filepath.Join(dir, top)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot write %s: %w", filepath.Join(dir, top), errors.Join(err, fs.ErrExist))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot create directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("cannot open directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	for name, content := range files {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return fmt.Errorf("cannot create directory: %w", err)
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}
		if err := root.WriteFile(name, content, mode); err != nil {
			return fmt.Errorf("cannot write file: %w", err)
		}
	}
	return nil
}
