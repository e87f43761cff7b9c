package otlp

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Names of metadata.
const (
	KeySignal   = keySignal
	KeyResource = keyResource
	KeyScope    = keyScope
	KeyTypes    = keyTypes
	KeyEncoding = keyEncoding
)

// MaxDepth is the maximum nesting of values.
const MaxDepth = maxDepth

// RecordsOf returns the records of a request, and the number and reason of the rejected items.
func RecordsOf(signal string, data proto.Message, inBody bool) (all []record.Record, rejected int64, reason error) {
	c := newContent(signalOf(signal), data, record.Metadata{{Key: keySignal, Value: signal}}, inBody)
	for c.Left() > 0 {
		some, err := c.Next(7)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, some...)
	}
	return all, c.rejected, c.reason
}

// RequestOf returns the request with the records, which have the same signal.
func RequestOf(records []record.Record) (proto.Message, error) {
	var q *request
	var t items
	for i := range records {
		one, err := t.item(&records[i])
		if err != nil {
			return nil, err
		}
		if q == nil {
			q = newRequest(one.signal)
		}
		if err := q.add(one); err != nil {
			return nil, err
		}
	}
	return q.data, nil
}

// NewData returns an empty request of a signal.
func NewData(signal string) proto.Message { return signalOf(signal).newData() }

// The two encodings of OTLP/JSON, and the estimates of memory.
var (
	MarshalJSON    = marshalJSON
	UnmarshalJSON  = unmarshalJSON
	JSONMemory     = jsonMemory
	ProtobufMemory = protobufMemory
)

// Dial makes the destination connect with dial.
func (d *Destination) Dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	d.client.http.Transport.(*http.Transport).DialContext = dial
}
