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

// Prepare returns a function that does nothing: on this system only the first process adopts orphans.
func Prepare(string, *slog.Logger) (end func(context.Context)) { return func(context.Context) {} }
