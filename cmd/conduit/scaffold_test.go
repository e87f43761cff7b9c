package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestDemoIsTheOneInTheCheckout(t *testing.T) {
	file, err := os.ReadFile("../../pipelines/demo-pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := demo("demo-pipeline").render(); string(got) != string(file) {
		t.Errorf("conduit pipelines init writes\n%s", got)
	}
}

func TestQuoteIsReadBackTheSame(t *testing.T) {
	for _, s := range []string{
		"", "word", "a.b-c_1", "1", "1.5", "true", "No", "null", "-", "a b", "a: b", "# a", "it's", `say "x"`,
		`back\slash`, `{{ index .Metadata "opencdc.collection" }}`, "two\nlines", "tab\t", "<&>", "Zürich", "\x1b[2J", "*", "~",
	} {
		t.Run(s, func(t *testing.T) {
			var back map[string]any
			if err := yaml.Unmarshal([]byte("k: "+quote(s)+"\n"), &back); err != nil || back["k"] != s {
				t.Errorf("%q is written %s and read %q, %v", s, quote(s), back["k"], err)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{invalidf("x"), 2},
		{fmt.Errorf("cannot listen: %w", &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}), 3},
		{fmt.Errorf("cannot write: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}), 3},
		{fmt.Errorf("cannot open: %w", lockedError{}), 3},
	}
	for _, tt := range tests {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}
