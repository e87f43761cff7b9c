package cli

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// The name of a file is printed on one line, and cannot steer a terminal, not even with the sequences of commands.
func TestProblemsOfOddFiles(t *testing.T) {
	var b strings.Builder
	new(Program).ProblemsTo(&b, []spec.Problem{
		{File: "a\u202eb\nc\x1b[31m.yaml", Severity: spec.SeverityError, Message: "no \x1b[2J"},
	})
	if want := `a\u202eb\x0ac\x1b[31m.yaml:1:1: error: no \x1b[2J` + "\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}
