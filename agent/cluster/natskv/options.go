// Package natskv keeps the sessions and claims of a cluster in a stream of NATS JetStream, with the layout of a
// key-value bucket. It does not create a bucket: for every key that expires, a bucket writes a marker, which can
// replace a renewal that was acknowledged at the same time.
package natskv

import (
	"log/slog"
	"strings"
)

// Options configures the connection to NATS.
type Options struct {
	URL         string // one or more server URLs, separated by commas
	Cluster     string // cluster name
	Replicas    int    // of the stream, if this agent creates it
	Credentials string // file with a JWT and its key
	NKey        string // file with the seed of a key
	CA          string // file with the certificates of authorities
	Certificate string // file with this agent's certificate
	Key         string // file with the key of Certificate
	Name        string // of this agent
	Log         *slog.Logger
}

// UnfitError reports that a stream or a server does not guarantee the properties that claims require.
type UnfitError struct{ Wrong []string }

// Error lists the problems.
func (u *UnfitError) Error() string {
	return "NATS cannot keep the claims of the cluster: " + strings.Join(u.Wrong, "; ")
}
