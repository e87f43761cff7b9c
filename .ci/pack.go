//go:build ignore

// Command pack compresses the files of a directory for a binary: go run .ci/pack.go DIR TO. It writes them to TO, with
// overlay.json for the flag -overlay of go build.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: go run .ci/pack.go DIR TO")
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func pack(dir, to string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		packed, err := compressed(content)
		if err != nil {
			return err
		}
		file := filepath.Join(to, f.Name())
		if err := os.WriteFile(file, packed, 0o600); err != nil {
			return err
		}
		replace[filepath.Join(dir, f.Name())] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "overlay.json"), overlay, 0o600)
}

func compressed(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
