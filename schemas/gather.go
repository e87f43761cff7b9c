//go:build ignore

// Gather puts the schema documents into documents.json.gz: an object of texts by file name.
package main

import (
	"compress/gzip"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	found, err := filepath.Glob("*.json")
	check(err)
	texts := map[string]string{}
	for _, path := range found {
		content, err := os.ReadFile(path)
		check(err)
		texts[path] = string(content)
	}
	f, err := os.Create("documents.json.gz")
	check(err)
	w, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	check(err)
	check(json.NewEncoder(w).Encode(texts))
	check(w.Close())
	check(f.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
