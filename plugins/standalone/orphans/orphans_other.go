//go:build !linux

package orphans

import (
	"context"
	"os/exec"
)

// Start starts a connector's process.
func Start(cmd *exec.Cmd) error { return cmd.Start() }

// Ended does nothing.
func Ended(int) {}

// End does nothing: here orphans are adopted by the first process only.
func End(context.Context, string) {}
