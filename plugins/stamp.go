package plugins

import "github.com/conduit-agent/conduit/plugins/record"

// stamp gives records the metadata that every record has: when it was read, and by
// which connector. What a record has already stays.
func stamp(records []record.Record, connectorID, readAt string) {
	room := makeRoom(records)
	for i := range records {
		md := &records[i].Metadata
		if n := len(*md); cap(*md)-n < stampFields {
			own := room[: n+stampFields : n+stampFields]
			room = room[n+stampFields:]
			*md = own[:copy(own, *md)]
		}
		md.SetDefault(record.KeySourceConnectorID, connectorID)
		md.SetDefault(record.KeyReadAt, readAt)
	}
}

const stampFields = 2

// makeRoom returns room, in one piece, for the metadata of all records that have no
// spare capacity for the fields to come.
func makeRoom(records []record.Record) []record.Field {
	n := 0
	for i := range records {
		if md := records[i].Metadata; cap(md)-len(md) < stampFields {
			n += len(md) + stampFields
		}
	}
	if n == 0 {
		return nil
	}
	return make([]record.Field, n)
}
