// Package page reads Markdown pages whose examples are tested.
package page

import (
	"os"
	"strings"
	"testing"
)

// Blocks returns the blocks of a language in the Markdown page at path, in order.
func Blocks(t testing.TB, path, language string) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(page), "\n```"+language+"\n")[1:] {
		block, _, closed := strings.Cut(part, "\n```\n")
		if !closed {
			t.Fatalf("%s: a block of %s has no end", path, language)
		}
		blocks = append(blocks, block)
	}
	return blocks
}
