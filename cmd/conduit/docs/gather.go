//go:build ignore

// Gather puts the Markdown files of the repository that are pages of the site into pages.zip.
package main

import (
	"archive/zip"
	"log"
	"os"
	"path/filepath"
	"slices"
)

// patterns are those of the files, in the repository.
var patterns = []string{
	"README.md", "SECURITY.md", "CHANGELOG.md", "agent/README.md", "agent/RELIABILITY.md", "agent/engine/BENCHMARKS.md",
	"api/README.md", "spec/README.md", "reconcile/README.md", "schemas/README.md",
	"plugins/README.md", "plugins/builtin/README.md", "plugins/builtin/*/README.md", "plugins/processor/README.md",
	"plugins/sdk/README.md", "plugins/sdk/example/README.md", "plugins/sdk/example/python/README.md", "plugins/plugintest/README.md",
	"cmd/conduit/systemd/README.md", "cmd/conduit/docs/OPERATING.md",
}

func main() {
	log.SetFlags(0)
	const repository = "../../.."
	f, err := os.Create("pages.zip")
	check(err)
	w := zip.NewWriter(f)
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
			entry, err := w.Create(filepath.ToSlash(name)) // without a time, so that equal pages make an equal file
			check(err)
			_, err = entry.Write(content)
			check(err)
		}
	}
	check(w.Close())
	check(f.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
