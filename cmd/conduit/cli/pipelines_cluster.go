//go:build !minimal && !no_cluster

package cli

import (
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/spec"
)

// ofMember returns f with the additional problems that its pipelines have on a member of a cluster. Path names the
// file.
func ofMember(path string, f spec.File) spec.File { return cluster.ProblemsInFile(path, f) }
