//go:build minimal || no_cluster

package cli

import "github.com/conduit-agent/conduit/spec"

// ofMember returns f: an agent of this build cannot be a member of a cluster.
func ofMember(_ string, f spec.File) spec.File { return f }
