package plugins

import (
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// stampFields is the maximum number of fields that stamp adds to a record.
const stampFields = 2

// stamp adds the standard metadata to records: the read time and the connector id. It keeps existing values. The fields
// of all records without spare capacity share one allocation.
func stamp(records []record.Record, connectorID string) {
	spare, complete := 0, true
	for i := range records {
		md := records[i].Metadata
		if complete = complete && isStamped(md); !complete && cap(md)-len(md) < stampFields {
			spare += len(md) + stampFields
		}
	}
	if complete {
		return
	}
	s := stamper{
		id:     record.Field{Key: record.KeySourceConnectorID, Value: connectorID},
		readAt: record.Field{Key: record.KeyReadAt, Value: strconv.FormatInt(time.Now().UnixNano(), 10)},
		spare:  make([]record.Field, spare),
	}
	for i := range records {
		s.stamp(&records[i].Metadata)
	}
}

func isStamped(md record.Metadata) bool {
	return len(md) >= stampFields && md.Get(record.KeySourceConnectorID) != "" && md.Get(record.KeyReadAt) != ""
}

// stamper adds the fields to metadata. The key of id sorts before the key of readAt.
type stamper struct {
	id, readAt record.Field
	spare      []record.Field
	i, j       int // their indexes in the last metadata, which is often similar to the next
}

// stamp adds the fields to md, and moves it into spare if necessary.
func (s *stamper) stamp(md *record.Metadata) {
	from, n := *md, len(*md)
	var hasID, hasReadAt bool
	s.i, hasID = placeOf(from, s.id.Key, s.i)
	s.j, hasReadAt = placeOf(from, s.readAt.Key, s.j)
	if hasID && hasReadAt && from[s.i].Value != "" && from[s.j].Value != "" {
		return
	}
	to := from
	if cap(from)-n < stampFields {
		to, s.spare = s.spare[:n:n+stampFields], s.spare[n+stampFields:]
	}
	if hasID || hasReadAt {
		copy(to, from)
		*md = to
		md.SetDefault(s.id.Key, s.id.Value)
		md.SetDefault(s.readAt.Key, s.readAt.Value)
		return
	}
	to = to[:n+stampFields] // may be the memory of from
	copy(to[s.j+2:], from[s.j:])
	to[s.j+1] = s.readAt
	copy(to[s.i+1:], from[s.i:s.j])
	to[s.i] = s.id
	copy(to, from[:s.i])
	*md = to
}

// placeOf returns the index of key in md, or its insertion point. It tries guess first, then searches.
func placeOf(md record.Metadata, key string, guess int) (i int, has bool) {
	if i = guess; i <= len(md) && (i == 0 || md[i-1].Key < key) && (i == len(md) || md[i].Key > key) {
		return i, false
	}
	i = len(md)
	for i > 0 && md[i-1].Key >= key {
		i--
	}
	return i, i < len(md) && md[i].Key == key
}
