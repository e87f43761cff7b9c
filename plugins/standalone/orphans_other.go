//go:build !linux

package standalone

import (
	"context"
	"log/slog"
	"os/exec"
)

// Start starts a connector's process.
func Start(cmd *exec.Cmd) error { return cmd.Start() }

// Ended does nothing.
func Ended(int) {}

// Prepare returns a function that does nothing: here orphans are adopted by the first process only.
func Prepare(string, *slog.Logger) (end func(context.Context)) { return func(context.Context) {} }
