package reference_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/reference"
)

// TestPageOfReferences compares the page of pipeline files with the kinds of references in the binary: each kind has a
// row with its syntax and its description.
func TestPageOfReferences(t *testing.T) {
	page, err := os.ReadFile("../../spec/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range reference.Kinds() {
		for syntax := range strings.SplitSeq(k.Syntax, ", ") {
			row := fmt.Sprintf("`%s` | ", syntax)
			if k.Name != "env" { // each syntax of variables has its own description
				row += k.Description + " |\n"
			}
			if !strings.Contains(string(page), row) {
				t.Errorf("spec/README.md has no row %q", strings.TrimSpace(row))
			}
		}
	}
}
