package record

import (
	"maps"
	"slices"
	"strings"
)

// Metadata is a small set of key-value pairs, sorted by key, without duplicate keys. A sorted slice costs one
// allocation per record and needs no sorting when it is written. Set keeps the order; build metadata with Set or
// NewMetadata.
type Metadata []Field

// Field is one pair of a Metadata.
type Field struct {
	Key, Value string
}

// NewMetadata returns the pairs of m.
func NewMetadata(m map[string]string) Metadata {
	if m == nil {
		return nil
	}
	md := make(Metadata, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		md = append(md, Field{k, m[k]})
	}
	return md
}

// Get returns the value of key, "" if there is none. An empty value counts as absent throughout the protocol, so Get
// treats them alike.
func (m Metadata) Get(key string) string {
	for i := range m {
		if m[i].Key == key {
			return m[i].Value
		}
	}
	return ""
}

// MaxMetadata is the maximum number of pairs of a record. A record with more pairs is refused after processors, and
// when a connector's process or a module sends it.
const MaxMetadata = 10_000

// few is the number of pairs up to which a linear search is fastest.
const few = 32

// Set sets key to value. For many keys, Add and Sort are faster.
func (m *Metadata) Set(key, value string) {
	s := *m
	i := len(s)
	if i > few {
		i, _ = slices.BinarySearchFunc(s, key, func(f Field, key string) int { return strings.Compare(f.Key, key) })
	}
	for i > 0 && s[i-1].Key >= key {
		i--
	}
	if i < len(s) && s[i].Key == key {
		s[i].Value = value
		return
	}
	*m = slices.Insert(s, i, Field{key, value})
}

// Add appends a pair without regard to order. Call Sort before any other use of m.
func (m *Metadata) Add(key, value string) { *m = append(*m, Field{key, value}) }

// Sort sorts the pairs after Add. Of several pairs with the same key the last one stays.
func (m *Metadata) Sort() {
	s := *m
	sorted := true
	for i := 1; i < len(s) && sorted; i++ {
		sorted = s[i-1].Key < s[i].Key
	}
	if sorted {
		return
	}
	slices.SortStableFunc(s, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	n := 0
	for i := range s {
		if n > 0 && s[n-1].Key == s[i].Key {
			n--
		}
		s[n] = s[i]
		n++
	}
	clear(s[n:])
	*m = s[:n]
}

// SetDefault sets key to value unless key has a value already.
func (m *Metadata) SetDefault(key, value string) {
	if m.Get(key) == "" {
		m.Set(key, value)
	}
}

// Delete removes key.
func (m *Metadata) Delete(key string) {
	*m = slices.DeleteFunc(*m, func(f Field) bool { return f.Key == key })
}

// Map returns the pairs as a map, nil for nil.
func (m Metadata) Map() map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, f := range m {
		out[f.Key] = f.Value
	}
	return out
}

// Equal reports whether m and o hold the same pairs.
func (m Metadata) Equal(o Metadata) bool { return slices.Equal(m, o) }

// Clone returns a copy of m.
func (m Metadata) Clone() Metadata { return slices.Clone(m) }

// The metadata keys of the OpenCDC format and of the connector protocol. All values
// are text; times are Unix nanoseconds in decimal.
const (
	KeyVersion              = "opencdc.version"                // "v1"
	KeyCreatedAt            = "opencdc.createdAt"              // time of creation in the source
	KeyReadAt               = "opencdc.readAt"                 // time of reading by the source
	KeyCollection           = "opencdc.collection"             // table, topic, … that contains it
	KeyKeySchemaSubject     = "opencdc.key.schema.subject"     // schema of Key
	KeyKeySchemaVersion     = "opencdc.key.schema.version"     // decimal
	KeyPayloadSchemaSubject = "opencdc.payload.schema.subject" // schema of Before and After
	KeyPayloadSchemaVersion = "opencdc.payload.schema.version" // decimal
	KeyFileName             = "opencdc.file.name"
	KeyFileSize             = "opencdc.file.size" // bytes, decimal
	KeyFileHash             = "opencdc.file.hash"
	KeyFileChunked          = "opencdc.file.chunked"     // "true" or "false"
	KeyFileChunkIndex       = "opencdc.file.chunk.index" // decimal, from 1
	KeyFileChunkCount       = "opencdc.file.chunk.count" // decimal

	KeySourcePluginName         = "conduit.source.plugin.name"
	KeySourcePluginVersion      = "conduit.source.plugin.version"
	KeyDestinationPluginName    = "conduit.destination.plugin.name"
	KeyDestinationPluginVersion = "conduit.destination.plugin.version"
	KeySourceConnectorID        = "conduit.source.connector.id"
	KeyClusterEpoch             = "conduit.cluster.epoch"    // decimal; claim epoch of the cluster member that read it
	KeyWindowStart              = "window.start"             // RFC 3339; start of the record's window
	KeyDLQNackError             = "conduit.dlq.nack.error"   // reason for a refusal
	KeyDLQNackNodeID            = "conduit.dlq.nack.node.id" // id of the processor, or id of the destination + "-acker"

	KeyTraceParent = "traceparent" // W3C Trace Context: the trace to which the record belongs
	KeyTraceState  = "tracestate"  // W3C Trace Context: values of tracing systems
)
