package mysql

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/gtid"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// The types of positions. 0 is a source that has not begun.
const (
	typeSnapshot = 1
	typeStream   = 2
)

// position is the place of a record.
//
// A change has the transactions before its own, the GTID of its own, and its number among the records of that one. The
// last record of a transaction has the set with its transaction, and no number.
type position struct {
	Type   int    `json:"type"`
	GTID   string `json:"gtid,omitempty"`  // of the transactions before
	In     string `json:"in,omitempty"`    // transaction of the record
	Index  int64  `json:"index,omitempty"` // of the record in it; 0: all of it was handed on
	File   string `json:"file,omitempty"`  // of the log, and the place in it, at which the transaction begins, or ended
	Pos    uint64 `json:"pos,omitempty"`
	Began  uint32 `json:"began,omitempty"`  // when the file was begun
	Server string `json:"server,omitempty"` // on which file and place are
	Done   string `json:"done,omitempty"`   // items of the settings of which all rows were read, as items.String
	Tables string `json:"tables,omitempty"` // fingerprint of the setting
	Begun  string `json:"begun,omitempty"`  // items of which rows are being read
	Table  *table `json:"table,omitempty"`  // that is being read: all before it in the alphabet were
	Seen   *seen  `json:"seen,omitempty"`

	set gtid.Set // GTID
}

// table is how far the rows of a table are read.
type table struct {
	Name string   `json:"name"`          // database.table
	Key  []string `json:"key,omitempty"` // of the last row; nothing: from the beginning
	Rows int64    `json:"rows,omitempty"`
}

// seen says which transactions the rows of a snapshot contain: changes of its tables in them are not delivered again.
type seen struct {
	GTID  string `json:"gtid,omitempty"`
	File  string `json:"file,omitempty"`
	Pos   uint64 `json:"pos,omitempty"`
	Items string `json:"items"` // of the settings, whose tables were read

	set gtid.Set
}

func parsePosition(p record.Position) (pos position, err error) {
	if len(p) == 0 {
		return pos, nil
	}
	if err := json.Unmarshal(p, &pos); err != nil || pos.Type < typeSnapshot || pos.Type > typeStream {
		return pos, sdk.CannotResume(p, "a position of mysql")
	}
	if pos.set, err = gtid.Parse(pos.GTID); err != nil {
		return pos, sdk.CannotResume(p, "a position of mysql: "+err.Error())
	}
	if pos.Seen != nil {
		if pos.Seen.set, err = gtid.Parse(pos.Seen.GTID); err != nil {
			return pos, sdk.CannotResume(p, "a position of mysql: "+err.Error())
		}
	}
	if pos.File == "" {
		return pos, sdk.CannotResume(p, "a position of mysql: it has no place in the log")
	}
	return pos, nil
}

// place is one in the log.
type place struct {
	set    gtid.Set // the transactions before it
	file   string   // and where in it they end
	pos    uint64
	began  uint32 // when the file was begun, in seconds since 1970; 0: not known
	server string // that has the file
	in     string // transaction behind the set of which records were handed on already
	index  int64  // how many
}

func (p *place) clone() place {
	c := *p
	c.set = p.set.Clone()
	return c
}

// String says where it is, for errors.
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

// append appends a position without its end, which suffix returns. What a position has of a transaction comes between the two.
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

// suffix returns what all positions end with.
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

// hasPlace reports whether the rows contain the transaction that begins at a place of a log without GTIDs.
func (s *seen) hasPlace(file string, pos uint64) bool {
	if s == nil {
		return false
	}
	if len(file) != len(s.File) { // the number gets longer
		return len(file) < len(s.File)
	}
	return file < s.File || file == s.File && pos < s.Pos
}

// of reports whether rows of a table were read.
func (s *seen) of(patterns []pattern, schema, name string) bool {
	read := parseItems(s.Items)
	return slices.ContainsFunc(patterns, func(p pattern) bool { return read.has(p.item) && p.Matches(schema, name) })
}

// items are entries of the settings tables and snapshot.again, by a hash of each, so that positions stay short.
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

// String is the text that parseItems reads.
func (i items) String() string { return strings.Join(i, "") }

func (i items) has(item string) bool { return slices.Contains(i, item) }
