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
// left of spare.
func stampOne(md *record.Metadata, spare []record.Field, id, readAt record.Field) []record.Field {
	n := len(*md)
	if n >= stampFields && md.Get(id.Key) != "" && md.Get(readAt.Key) != "" {
		return spare
	}
	if cap(*md)-n < stampFields {
		own := spare[: n : n+stampFields]
		copy(own, *md)
		*md, spare = own, spare[n+stampFields:]
	}
	if n == 0 { // in the order of the keys
		*md = append(*md, id, readAt)
		return spare
	}
	md.SetDefault(id.Key, id.Value)
	md.SetDefault(readAt.Key, readAt.Value)
	return spare
}
