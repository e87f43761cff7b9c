//go:build minimal

package natskv

import (
	"context"
	"errors"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// Store stands for a stream in a build without the client of NATS.
type Store struct{}

var errAbsent = errors.New("this build has no clusters: it was built with -tags minimal")

// Open returns an error.
func Open(Options) (*Store, error) { return nil, errAbsent }

// Ready returns an error.
func (*Store) Ready(context.Context, Options) error { return errAbsent }

// Write does not know what becomes of a write.
func (*Store) Write(context.Context, protocol.Write) protocol.Outcome {
	return protocol.Outcome{Result: protocol.Unknown}
}

// Read returns an error.
func (*Store) Read(context.Context, string) (protocol.Entry, error) {
	return protocol.Entry{}, errAbsent
}

// Watch returns an error.
func (*Store) Watch(context.Context, func(protocol.Entry), func()) error { return errAbsent }

// Close does nothing.
func (*Store) Close() {}
