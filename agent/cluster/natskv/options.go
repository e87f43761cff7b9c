// Package natskv keeps the sessions and claims of a cluster in a stream of NATS JetStream, with
// the layout of a key-value bucket. It is not made as a bucket: one whose keys expire writes a
// marker for each, which can replace a renewal that was acknowledged at the same time.
package natskv

import (
	"log/slog"
	"strings"
)

// Options say how to reach NATS.
type Options struct {
	URL         string // of one or more servers, separated by commas
	Cluster     string // name of the cluster
	Replicas    int    // of the stream, where this agent makes it
	Credentials string // file with a JWT and its key
	NKey        string // file with the seed of a key
	CA          string // file with the certificates of authorities
	Certificate string // file with this agent's certificate
	Key         string // file with the key of Certificate
	Name        string // of this agent
	Log         *slog.Logger
}

// UnfitError reports that a stream or a server does not do what claims rest on.
type UnfitError struct{ Wrong []string }

// Error lists what is wrong.
func (u *UnfitError) Error() string {
	return "NATS cannot keep the claims of the cluster: " + strings.Join(u.Wrong, "; ")
}
