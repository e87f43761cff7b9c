package postgres

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pgoutput"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// The types of positions. 0 is a source that has not begun.
const (
	typeSnapshot = 1
	typeStream   = 2
)

// position is the place of a record. Its JSON is a superset of what Conduit's connector writes.
//
// A change has the LSN of its transaction's commit and its number in the transaction, from 1.
// Transactions are delivered in the order of their commits, so the two together only grow.
// The LSNs of changes do not: a transaction that began earlier may commit later.
type position struct {
	Type      int                     `json:"type"`
	LastLSN   string                  `json:"last_lsn,omitempty"`
	Index     int64                   `json:"index,omitempty"`  // 0: the LSN is one that Conduit wrote, of a change
	System    string                  `json:"system,omitempty"` // identifier of the server's data
	All       bool                    `json:"all,omitempty"`    // the tables whose id is greater than that of the first in Todo are to be read, too
	Todo      []todo                  `json:"todo,omitempty"`   // tables that are being read, the first one now
	Seen      *seen                   `json:"seen,omitempty"`
	Snapshots map[string]conduitTable `json:"snapshots,omitempty"` // Conduit's

	commit pgoutput.LSN // LastLSN
}

// todo is a table of which rows are to be read.
type todo struct {
	Table string   `json:"table"`          // schema.name
	Key   []string `json:"key,omitempty"`  // of the last row read; nothing: from the beginning
	Rows  int64    `json:"rows,omitempty"` // read so far
}

// conduitTable is how far Conduit's connector has read a table.
type conduitTable struct {
	LastRead    json.Number `json:"last_read"`
	SnapshotEnd json.Number `json:"snapshot_end"`
}

// seen says which transactions the rows of a snapshot contain: changes of these are not
// delivered again.
type seen struct {
	Snapshot string   `json:"snapshot"`         // as text of pg_current_snapshot
	Until    string   `json:"until"`            // commits from here on are in no row
	Tables   []string `json:"tables,omitempty"` // nothing: all
}

func parsePosition(p record.Position) (pos position, err error) {
	if len(p) == 0 {
		return pos, nil
	}
	d := json.NewDecoder(bytes.NewReader(p))
	if err := d.Decode(&pos); err != nil || pos.Type < 0 || pos.Type > typeStream {
		return pos, sdk.CannotResume(p, "a position of postgres")
	}
	if pos.LastLSN != "" {
		if pos.commit, err = pgoutput.ParseLSN(pos.LastLSN); err != nil {
			return pos, sdk.CannotResume(p, "a position of postgres: "+err.Error())
		}
	}
	if pos.Type == typeStream && pos.commit == 0 {
		return pos, sdk.CannotResume(p, "a position of postgres: it has no last_lsn")
	}
	for _, name := range slices.Sorted(maps.Keys(pos.Snapshots)) {
		if t := pos.Snapshots[name]; t.LastRead != t.SnapshotEnd {
			pos.Todo = append(pos.Todo, todo{Table: "public." + name, Key: []string{t.LastRead.String()}})
		}
	}
	return pos, nil
}

// appendStream appends the position of a change. It is what marshalling it gives.
func appendStream(dst []byte, commit pgoutput.LSN, index int64, system string, seen []byte) record.Position {
	dst = append(dst, `{"type":2,"last_lsn":"`...)
	dst = commit.Append(dst)
	dst = append(dst, `","index":`...)
	dst = strconv.AppendInt(dst, index, 10)
	dst = append(dst, `,"system":"`...)
	dst = append(append(dst, system...), '"')
	if len(seen) > 0 {
		dst = append(append(dst, `,"seen":`...), seen...)
	}
	return append(dst, '}')
}
