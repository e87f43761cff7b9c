package record

import (
	"maps"
	"slices"
	"strings"
)

// Metadata is a small set of key-value pairs, kept sorted by key with no key twice.
// A sorted slice costs one allocation for a record and needs no sorting when it is
// written. Set keeps the order; build it with Set or NewMetadata.
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

// Get returns the value of key, "" when there is none. An empty value counts as absent
// throughout the protocol, so the two are treated alike.
func (m Metadata) Get(key string) string {
	for i := range m {
		if m[i].Key == key {
			return m[i].Value
		}
	}
	return ""
}

// MaxMetadata is the greatest number of pairs that a record may have. More are refused behind
// processors, and in records that a connector's process or a module sends.
const MaxMetadata = 10_000

// few is up to how many pairs looking at all of them is fastest.
const few = 32

// Set gives key the value. For many keys, Add and Sort are faster.
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

// Add appends a pair without regard to order. Sort must follow before anything else is done with m.
func (m *Metadata) Add(key, value string) { *m = append(*m, Field{key, value}) }

// Sort puts the pairs in order after Add. Of several with one key the last one stays.
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

// SetDefault gives key the value unless it has a value already.
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
	KeyCreatedAt            = "opencdc.createdAt"              // time the record came to be in the source
	KeyReadAt               = "opencdc.readAt"                 // time the source read it
	KeyCollection           = "opencdc.collection"             // table, topic, … it belongs to
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
	KeyClusterEpoch             = "conduit.cluster.epoch"    // decimal; of the claim under which a member of a cluster read it
	KeyWindowStart              = "window.start"             // RFC 3339; where the window begins that the record was made of
	KeyDLQNackError             = "conduit.dlq.nack.error"   // why a record was refused
	KeyDLQNackNodeID            = "conduit.dlq.nack.node.id" // id of the processor that refused it, or of the destination with "-acker" behind it
)
