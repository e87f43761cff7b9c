package mysql

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Types of positions. 0 is the position of a source that has not begun.
const (
	typeSnapshot = 1
	typeStream   = 2
)

// position is the position of a record.
//
// The position of a change has the set of the transactions before its own, the GTID of the transaction, and the
// number of the record in it. The position of the last record of a transaction has the set including its
// transaction, and no number.
type position struct {
	Type   int    `json:"type"`
	GTID   string `json:"gtid,omitempty"`  // set of the transactions before
	In     string `json:"in,omitempty"`    // transaction of the record
	Index  int64  `json:"index,omitempty"` // index of the record in it; 0: the source emitted all its records
	File   string `json:"file,omitempty"`  // log file and offset at which the transaction begins, or ended
	Pos    uint64 `json:"pos,omitempty"`
	Began  uint32 `json:"began,omitempty"`  // when the file was created
	Server string `json:"server,omitempty"` // server of the file
	Done   string `json:"done,omitempty"`   // items of the settings whose rows have all been read, as items.String
	Tables string `json:"tables,omitempty"` // fingerprint of the setting
	Begun  string `json:"begun,omitempty"`  // items whose rows are being read
	Table  *table `json:"table,omitempty"`  // being read; the tables before it in the alphabet are complete
	Seen   *seen  `json:"seen,omitempty"`

	set binlog.GTIDSet // parsed GTID
}

// table is the progress of reading the rows of a table.
type table struct {
	Name string   `json:"name"`          // database.table
	Key  []string `json:"key,omitempty"` // of the last row; empty: from the beginning
	Rows int64    `json:"rows,omitempty"`
}

// seen identifies the transactions that the rows of a snapshot contain. The source does not emit their changes of these
// tables again.
type seen struct {
	GTID  string `json:"gtid,omitempty"`
	File  string `json:"file,omitempty"`
	Pos   uint64 `json:"pos,omitempty"`
	Items string `json:"items"` // of the settings whose tables were read

	set binlog.GTIDSet
}

func parsePosition(p record.Position) (pos position, err error) {
	if len(p) == 0 {
		return pos, nil
	}
	if err := json.Unmarshal(p, &pos); err != nil || pos.Type < typeSnapshot || pos.Type > typeStream {
		return pos, sdk.CannotResume(p, "a position of mysql")
	}
	if pos.set, err = binlog.ParseGTIDSet(pos.GTID); err != nil {
		return pos, sdk.CannotResume(p, "a position of mysql: "+err.Error())
	}
	if pos.Seen != nil {
		if pos.Seen.set, err = binlog.ParseGTIDSet(pos.Seen.GTID); err != nil {
			return pos, sdk.CannotResume(p, "a position of mysql: "+err.Error())
		}
	}
	if pos.File == "" {
		return pos, sdk.CannotResume(p, "a position of mysql, because it has no position in the binary log")
	}
	return pos, nil
}

// place is a place in the log.
type place struct {
	set    binlog.GTIDSet // the transactions before it
	file   string         // log file and offset at which they end
	pos    uint64
	began  uint32 // when the file was created, in seconds since 1970; 0: unknown
	server string // server of the file
	in     string // transaction after the set, emitted in part
	index  int64  // how many records
}

func (p *place) clone() place {
	c := *p
	c.set = p.set.Clone()
	return c
}

// String describes the place for errors.
func (p *place) String() string {
	text := fmt.Sprintf("%s:%d", p.file, p.pos)
	if set := p.set.String(); set != "" {
		text = "GTID " + set + " (" + text + ")"
	}
	return text
}

func (p *position) place() place {
	return place{p.set.Clone(), p.File, p.Pos, p.Began, p.Server, p.In, p.Index}
}

// append appends a position without its suffix. The caller adds the fields of the transaction between the two.
func (p *place) append(dst []byte, typ int) []byte {
	dst = append(dst, `{"type":`...)
	dst = strconv.AppendInt(dst, int64(typ), 10)
	if set := p.set.String(); set != "" {
		dst = append(append(append(dst, `,"gtid":"`...), set...), '"')
	}
	dst = strconv.AppendQuote(append(dst, `,"file":`...), p.file)
	dst = strconv.AppendUint(append(dst, `,"pos":`...), p.pos, 10)
	if p.began > 0 {
		dst = strconv.AppendUint(append(dst, `,"began":`...), uint64(p.began), 10)
	}
	return strconv.AppendQuote(append(dst, `,"server":`...), p.server)
}

// suffix returns the common end of all positions.
func (s *Source) suffix(rows *seen) []byte {
	b, _ := json.Marshal(struct { // cannot fail
		Done   string `json:"done,omitempty"`
		Tables string `json:"tables"`
		Begun  string `json:"begun,omitempty"`
		Seen   *seen  `json:"seen,omitempty"`
	}{s.done.String(), s.settings.fingerprint(), s.begun.String(), rows})
	b[0] = ','
	return b
}

// hasMaria reports whether the rows contain a transaction of MariaDB.
func (s *seen) hasMaria(domain uint32, sequence uint64) bool {
	return s != nil && s.set.HasMaria(domain, sequence)
}

// hasMySQL reports whether the rows contain a transaction of MySQL.
func (s *seen) hasMySQL(server [16]byte, sequence uint64) bool {
	return s != nil && s.set.HasMySQL(server, sequence)
}

// hasPlace reports whether the rows contain the transaction that begins at a place in a log without GTIDs.
func (s *seen) hasPlace(file string, pos uint64) bool {
	if s == nil {
		return false
	}
	if len(file) != len(s.File) { // a longer number follows a shorter one
		return len(file) < len(s.File)
	}
	return file < s.File || file == s.File && pos < s.Pos
}

// includes reports whether the snapshot read the rows of a table.
func (s *seen) includes(patterns []pattern, schema, name string) bool {
	read := parseItems(s.Items)
	return slices.ContainsFunc(patterns, func(p pattern) bool { return read.has(p.item) && p.Matches(schema, name) })
}

// items identifies entries of the settings tables and snapshot.again by a hash of each, which keeps positions short.
type items []string

const itemLength = 8

// itemOf returns the hash of an entry.
func itemOf(entry string) string {
	sum := sha256.Sum256([]byte(entry))
	return base64.RawURLEncoding.EncodeToString(sum[:itemLength*3/4])
}

func parseItems(text string) (all items) {
	for len(text) >= itemLength {
		all, text = append(all, text[:itemLength]), text[itemLength:]
	}
	return all
}

// String returns the text that parseItems reads.
func (i items) String() string { return strings.Join(i, "") }

func (i items) has(item string) bool { return slices.Contains(i, item) }
