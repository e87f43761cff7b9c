package postgres

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Types of positions. 0 is the position of a source that has not begun.
const (
	typeSnapshot = 1
	typeStream   = 2
)

// position is the position of a record. Its JSON is a superset of the format of Conduit's connector.
//
// The position of a change has the LSN of the commit and the number of the change in the transaction, from 1.
// Transactions arrive in commit order, so the two together only grow. The LSNs of changes do not: a transaction that
// began earlier may commit later.
type position struct {
	Type      int                     `json:"type"`
	LastLSN   string                  `json:"last_lsn,omitempty"`
	Index     int64                   `json:"index,omitempty"`  // 0: LSN of a change, from Conduit
	System    string                  `json:"system,omitempty"` // identifier of the server's data
	All       bool                    `json:"all,omitempty"`    // also read the tables with ids above Todo[0]
	Todo      []todo                  `json:"todo,omitempty"`   // tables being read, the current one first
	Seen      *seen                   `json:"seen,omitempty"`
	Snapshots map[string]conduitTable `json:"snapshots,omitempty"` // from Conduit

	commit pg.LSN // LastLSN
}

// todo is a table whose rows have not all been read.
type todo struct {
	Table string   `json:"table"`          // schema.name
	Key   []string `json:"key,omitempty"`  // of the last row read; empty: from the beginning
	Rows  int64    `json:"rows,omitempty"` // number of rows read
}

// conduitTable is the progress of Conduit's connector in a table.
type conduitTable struct {
	LastRead    json.Number `json:"last_read"`
	SnapshotEnd json.Number `json:"snapshot_end"`
}

// seen identifies the transactions that the rows of a snapshot contain. The source does not emit their changes again.
type seen struct {
	Snapshot string   `json:"snapshot"`         // text of pg_current_snapshot
	Until    string   `json:"until"`            // no row contains a commit at or after this LSN
	Tables   []string `json:"tables,omitempty"` // empty: all
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
		if pos.commit, err = pg.ParseLSN(pos.LastLSN); err != nil {
			return pos, sdk.CannotResume(p, "a position of postgres: "+err.Error())
		}
	}
	if pos.Type == typeStream && pos.commit == 0 {
		return pos, sdk.CannotResume(p, "a position of postgres, because it has no last_lsn")
	}
	for _, name := range slices.Sorted(maps.Keys(pos.Snapshots)) {
		if t := pos.Snapshots[name]; t.LastRead != t.SnapshotEnd {
			pos.Todo = append(pos.Todo, todo{Table: "public." + name, Key: []string{t.LastRead.String()}})
		}
	}
	return pos, nil
}

// appendStream appends the position of a change. The result equals the output of json.Marshal.
func appendStream(dst []byte, commit pg.LSN, index int64, system string, seen []byte) record.Position {
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
