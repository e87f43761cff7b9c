//go:build !minimal

package docs

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io/fs"
	"sync"
)

//go:generate go run gather.go

// gathered are the pages as files of the repository. Embedding reaches no directory above, so that they
// are gathered here.
//
//go:embed pages.zip
var gathered []byte

var openGathered = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(bytes.NewReader(gathered), int64(len(gathered)))
})

// readPage returns the Markdown file at a path of the repository.
func readPage(path string) ([]byte, error) {
	files, err := openGathered()
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(files, path)
}
