package plugins

import (
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// stampFields is how many fields stamp may add to a record.
const stampFields = 2

// stamp gives records the metadata that every record has: when it was read, and by
// which connector. What a record has already stays. The fields of all records that have
// no spare capacity get it in one piece.
func stamp(records []record.Record, connectorID string) {
	spare, complete := 0, true
	for i := range records {
		md := records[i].Metadata
		if len(md) >= stampFields && md.Get(record.KeySourceConnectorID) != "" && md.Get(record.KeyReadAt) != "" {
			continue
		}
		complete = false
		if cap(md)-len(md) < stampFields {
			spare += len(md) + stampFields
		}
	}
	if complete {
		return
	}
	fields := make([]record.Field, spare)
	id := record.Field{Key: record.KeySourceConnectorID, Value: connectorID}
	readAt := record.Field{Key: record.KeyReadAt, Value: strconv.FormatInt(time.Now().UnixNano(), 10)}
	for i := range records {
		fields = stampOne(&records[i].Metadata, fields, id, readAt)
	}
}

// stampOne adds the fields to md, moving it into spare if need be, and returns what is
// left of spare. The key of id is before that of readAt.
func stampOne(md *record.Metadata, spare []record.Field, id, readAt record.Field) []record.Field {
	from, n := *md, len(*md)
	if n >= stampFields && from.Get(id.Key) != "" && from.Get(readAt.Key) != "" {
		return spare
	}
	to := from
	if cap(from)-n < stampFields {
		to, spare = spare[:n:n+stampFields], spare[n+stampFields:]
	}
	i, hasID := placeOf(from, id.Key)
	j, hasReadAt := placeOf(from, readAt.Key)
	if hasID || hasReadAt {
		copy(to, from)
		*md = to
		md.SetDefault(id.Key, id.Value)
		md.SetDefault(readAt.Key, readAt.Value)
		return spare
	}
	to = to[:n+stampFields] // which may be the memory of from
	copy(to[j+2:], from[j:])
	to[j+1] = readAt
	copy(to[i+1:], from[i:j])
	to[i] = id
	copy(to, from[:i])
	*md = to
	return spare
}

// placeOf returns where key is in md, or belongs.
func placeOf(md record.Metadata, key string) (i int, has bool) {
	i = len(md)
	for i > 0 && md[i-1].Key >= key {
		i--
	}
	return i, i < len(md) && md[i].Key == key
}
