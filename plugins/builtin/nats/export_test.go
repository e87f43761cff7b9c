package nats

import (
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/conduit-agent/conduit/plugins/record"
)

// MetadataOf returns the metadata of the record of a message with these headers.
func MetadataOf(header map[string][]string) record.Metadata {
	var r record.Record
	metadata(&r, "orders", header, time.Time{})
	return r.Metadata
}

// SetTraceContext sets the headers of a trace context.
func SetTraceContext(m *client.Msg, parent, state string) { setTraceContext(m, parent, state) }
