package pg

// This file decodes the messages of logical replication: the frames of the streaming replication protocol, and the
// messages of version 1 of the plugin pgoutput in them. Formats: "Streaming Replication Protocol" and "Logical
// Replication Message Formats" in the PostgreSQL documentation.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// LSN is a position in the write-ahead log.
type LSN uint64

// ParseLSN parses the text form of an LSN, such as 16/B374D848.
func ParseLSN(s string) (LSN, error) {
	high, low, ok := strings.Cut(s, "/")
	h, err1 := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("cannot parse LSN %q: want two hexadecimal numbers with a slash between them", s)
	}
	return LSN(h<<32 | l), nil
}

// Append appends the text form to dst.
func (l LSN) Append(dst []byte) []byte {
	dst = appendHex(dst, uint64(l>>32))
	return appendHex(append(dst, '/'), uint64(l&0xffffffff))
}

func appendHex(dst []byte, n uint64) []byte {
	at := len(dst)
	dst = strconv.AppendUint(dst, n, 16)
	for i := at; i < len(dst); i++ {
		if dst[i] >= 'a' {
			dst[i] -= 'a' - 'A'
		}
	}
	return dst
}

// String returns the text form.
func (l LSN) String() string { return string(l.Append(nil)) }

// Frame is a message of the streaming replication protocol from the server: *XLogData or *Keepalive.
type Frame any

// XLogData carries a message of pgoutput.
type XLogData struct {
	Start, End LSN
	Data       []byte
}

// Keepalive reports how far the server has sent.
type Keepalive struct {
	End   LSN
	Reply bool // the server requests a status at once
}

// ParseFrame parses the content of a CopyData message. The result refers to it.
func ParseFrame(b []byte) (Frame, error) {
	r := reader{b: b}
	switch kind := r.byte(); kind {
	case 'w':
		f := &XLogData{Start: LSN(r.uint64()), End: LSN(r.uint64())}
		r.uint64() // time of the server
		f.Data = r.b
		return f, r.err
	case 'k':
		f := &Keepalive{End: LSN(r.uint64())}
		r.uint64()
		f.Reply = r.byte() == 1
		return f, r.err
	default:
		return nil, fmt.Errorf("cannot read a frame of the replication stream: unknown type %q", kind)
	}
}

// AppendStatus appends a standby status update: everything before at is written, flushed and applied.
func AppendStatus(dst []byte, at LSN, now time.Time, reply bool) []byte {
	dst = append(dst, 'r')
	for range 3 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(at))
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(now.Sub(replicationEpoch).Microseconds()))
	if reply {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// replicationEpoch is the epoch of PostgreSQL's timestamps.
var replicationEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Message is a *Begin, *Commit, *Relation, *Insert, *Update, *Delete, *Truncate, or nil for a message without a change
// of a row.
type Message any

// Begin begins a transaction. Transactions are not interleaved and arrive in commit order.
type Begin struct {
	Commit LSN // LSN of the commit record
	Time   time.Time
	XID    uint32
}

// Commit ends a transaction.
type Commit struct{ Commit, End LSN }

// Relation describes a table. It precedes the first change of the table, and the first one after the table itself
// changed.
type Relation struct {
	OID          uint32
	Schema, Name string
	Identity     byte // replica identity: d, n, f or i
	Columns      []RelationColumn
}

// RelationColumn is a column of a Relation.
type RelationColumn struct {
	Key  bool // part of the replica identity
	Name string
	Type uint32 // OID
	// TypeName is the type in SQL syntax if it is numeric, whose OID does not include the precision.
	TypeName string
}

// Tuple has a value for each column of the relation.
type Tuple []Value

// Value is a column value as text. It refers to the message.
type Value struct {
	Kind byte // Text, Null or Unchanged
	Text []byte
}

// Kinds of values.
const (
	Text      = 't'
	Null      = 'n'
	Unchanged = 'u' // a large value that the change did not touch and the server did not send
)

// Insert is an inserted row.
type Insert struct {
	Relation uint32
	New      Tuple
}

// Update is an updated row. Old is nil unless the replica identity is full or the key changed. If OldKey is set, Old
// has only the columns of the key, and null for the others.
type Update struct {
	Relation uint32
	Old, New Tuple
	OldKey   bool
}

// Delete is a deleted row. OldKey is as in Update.
type Delete struct {
	Relation uint32
	Old      Tuple
	OldKey   bool
}

// Truncate reports truncated tables.
type Truncate struct{ Relations []uint32 }

// ParseMessage parses a message. The result refers to b.
func ParseMessage(b []byte) (m Message, err error) {
	r := reader{b: b}
	kind := r.byte()
	switch kind {
	case 'B':
		m = &Begin{Commit: LSN(r.uint64()), Time: r.time(), XID: r.uint32()}
	case 'C':
		r.byte()
		m = &Commit{Commit: LSN(r.uint64()), End: LSN(r.uint64())}
	case 'R':
		m = r.relation()
	case 'I':
		i := &Insert{Relation: r.uint32()}
		r.byte() // always N
		i.New = r.tuple()
		m = i
	case 'U':
		m = r.update()
	case 'D':
		d := &Delete{Relation: r.uint32()}
		d.OldKey = r.byte() == 'K'
		d.Old = r.tuple()
		m = d
	case 'T':
		m = r.truncate()
	case 'Y', 'O', 'M': // type, origin, logical message
	default:
		return nil, fmt.Errorf("cannot read a message of pgoutput: unknown type %q", kind)
	}
	if r.err != nil {
		return nil, fmt.Errorf("cannot read a message of pgoutput of type %q: %w", kind, r.err)
	}
	return m, nil
}

func (r *reader) relation() *Relation {
	rel := &Relation{OID: r.uint32(), Schema: r.text(), Name: r.text(), Identity: r.byte()}
	if rel.Schema == "" {
		rel.Schema = "pg_catalog" // the server sends an empty schema
	}
	n := int(r.uint16())
	for range n {
		if r.err != nil {
			break
		}
		c := RelationColumn{Key: r.byte()&1 == 1, Name: r.text(), Type: r.uint32()}
		if modifier := int32(r.uint32()); c.Type == OIDNumeric {
			c.TypeName = numericType(modifier)
		}
		rel.Columns = append(rel.Columns, c)
	}
	return rel
}

// numericType returns the type numeric with a type modifier, as format_type does.
func numericType(modifier int32) string {
	const header = 4 // bytes, which are part of the modifier
	if modifier < header {
		return "numeric"
	}
	modifier -= header
	scale := (modifier&0x7ff ^ 1024) - 1024 // eleven bits with a sign
	return fmt.Sprintf("numeric(%d,%d)", modifier>>16&0xffff, scale)
}

func (r *reader) update() *Update {
	u := &Update{Relation: r.uint32()}
	kind := r.byte()
	if kind == 'K' || kind == 'O' {
		u.Old, u.OldKey = r.tuple(), kind == 'K'
		r.byte() // N
	}
	u.New = r.tuple()
	return u
}

func (r *reader) truncate() *Truncate {
	n := int(r.uint32())
	r.byte() // options
	t := &Truncate{}
	for range n {
		if r.err != nil {
			break
		}
		t.Relations = append(t.Relations, r.uint32())
	}
	return t
}

func (r *reader) tuple() Tuple {
	n := int(r.uint16())
	if n > len(r.b) { // every value has at least one byte
		r.fail()
		return nil
	}
	t := make(Tuple, n)
	for i := range t {
		t[i].Kind = r.byte()
		switch t[i].Kind {
		case Null, Unchanged:
		case Text:
			t[i].Text = r.bytes(int(r.uint32()))
		default:
			r.fail()
			return nil
		}
	}
	return t
}

// reader reads values from the front of b until one is missing.
type reader struct {
	b   []byte
	err error
}

var errShort = errors.New("the message is truncated or damaged")

func (r *reader) fail() { r.err, r.b = errShort, nil }

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) time() time.Time {
	return replicationEpoch.Add(time.Duration(int64(r.uint64())) * time.Microsecond)
}

// text reads up to a zero byte.
func (r *reader) text() string {
	for i, c := range r.b {
		if c == 0 {
			return string(r.bytes(i + 1)[:i])
		}
	}
	r.fail()
	return ""
}
