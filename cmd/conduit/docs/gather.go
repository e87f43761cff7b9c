//go:build ignore

// Gather puts the Markdown files of the repository that are pages of the site into pages.tar.zst.
package main

import (
	"archive/tar"
	"bytes"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// patterns match the files in the repository.
var patterns = []string{
	"README.md", "SECURITY.md", "CHANGELOG.md", "agent/RELIABILITY.md", "agent/engine/BENCHMARKS.md",
	"api/README.md", "spec/README.md", "schemas/README.md",
	"plugins/README.md", "plugins/builtin/README.md", "plugins/builtin/*/README.md", "plugins/processor/README.md",
	"plugins/sdk/README.md", "plugins/sdk/example/README.md", "plugins/sdk/example/python/README.md", "plugins/plugintest/README.md",
	"cmd/conduit/systemd/README.md", "cmd/conduit/docs/*.md",
}

func main() {
	log.SetFlags(0)
	const repository = "../../.."
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		check(err)
		if len(found) == 0 {
			log.Fatalf("there is no %s", pattern)
		}
		slices.Sort(found)
		for _, path := range found {
			name, err := filepath.Rel(repository, path)
			check(err)
			content, err := os.ReadFile(path)
			check(err)
			check(w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content))})) // no time: reproducible
			_, err = w.Write(content)
			check(err)
		}
	}
	check(w.Close())
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	check(err)
	check(os.WriteFile("pages.tar.zst", e.EncodeAll(plain.Bytes(), nil), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
