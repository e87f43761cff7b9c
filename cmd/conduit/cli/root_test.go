package cli_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// TestAbsentCommands runs commands of the full binary in a binary that does not contain them.
func TestAbsentCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"mcp"}, {"mcp", "--write"}, {"prove", "pipelines"}, {"docs"}} {
		var errs bytes.Buffer
		code := cli.Run(t.Context(), &cli.Program{Stdout: io.Discard, Stderr: &errs}, args)
		if code != cli.ExitInvalid || !strings.Contains(errs.String(), "the full binary, conduit, does") {
			t.Errorf("%q: %d %s", args, code, errs.String())
		}
	}
}
