package docs

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/conduit-agent/conduit/plugins/zstd"
)

//go:generate go run gather.go

// gathered are the pages as files of the repository. They are gathered here because embedding cannot reach parent
// directories.
//
//go:embed pages.tar.zst
var gathered []byte

// gatheredMemory limits the memory for unpacking the pages: their window is 1 MiB.
const gatheredMemory = 4 << 20

// unpacked returns the pages by their paths in the repository.
var unpacked = sync.OnceValues(func() (map[string][]byte, error) {
	plain, err := zstd.NewReader(bytes.NewReader(gathered), gatheredMemory)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	files := map[string][]byte{}
	r := tar.NewReader(plain)
	for {
		switch header, err := r.Next(); {
		case errors.Is(err, io.EOF):
			return files, nil
		case err != nil:
			return nil, fmt.Errorf("cannot unpack the pages: %w", err)
		default:
			if files[header.Name], err = io.ReadAll(r); err != nil {
				return nil, fmt.Errorf("cannot unpack the pages: %w", err)
			}
		}
	}
})

// readPage returns the Markdown file at a path of the repository.
func readPage(path string) ([]byte, error) {
	files, err := unpacked()
	if err != nil {
		return nil, err
	}
	text, ok := files[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return text, nil
}
