//go:build !linux

package standalone

import (
	"context"
	"os/exec"
)

func startCommand(cmd *exec.Cmd) error { return cmd.Start() }

func forget(int) {}

// EndOrphans does nothing: here orphans are adopted by the first process only.
func EndOrphans(context.Context) {}
